"""Workers that are alive, and which of them leads."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.stats.overview import WorkerInfo as WorkerInfo
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation

CHORES_TERM = "maintenance"
"""The term of the worker that does the chores: the leader."""


class Term(msgspec.Struct, frozen=True):
    """Leadership for a while."""

    name: str
    worker: str
    expires_at: datetime


class ClusterFacet(Facet, abstract=True):
    """Workers that are alive, and which of them leads."""

    @operation(Effect.LEASE, has_content=False)
    def announce(self, worker: WorkerInfo) -> Operation[None]:
        """Record that a worker is alive."""

    @operation(Effect.LEASE, has_content=False)
    def retire(self, worker_id: str) -> Operation[None]:
        """List a worker that has stopped as gone; its leases, if any, are left to run out."""

    @operation(Effect.READ, has_content=False)
    def workers(self) -> Operation[list[WorkerInfo]]:
        """Return the workers heard from within WORKER_SILENCE that have not stopped."""

    @operation(Effect.READ, has_content=False)
    def gone(self) -> Operation[list[WorkerInfo]]:
        """Return workers that stopped or fell silent within WORKER_GONE, the last one first.

        At most WORKERS_GONE_MAX of them; after WORKER_GONE seconds one is forgotten.
        """

    @operation(Effect.LEASE, has_content=False)
    def lead(self, name: str, worker: str, ttl: float) -> Operation[Term | None]:
        """Take or keep the term called *name*; None while another worker holds it."""

    @operation(Effect.LEASE, has_content=False)
    def resign(self, name: str, worker: str) -> Operation[None]:
        """Give up a term, if *worker* holds it."""
