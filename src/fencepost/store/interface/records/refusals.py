"""Refused writes of workers that had lost their leases: the last few of each job, and how many."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.refusals import NewRefusal, RefusedWrite
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class RefusalsFacet(Facet, abstract=True):
    """Records of refused writes. Nothing depends on them, and they are bounded."""

    @operation(Effect.LEASE, has_content=False, name="record_refusals")
    def record(self, refusals: Sequence[NewRefusal]) -> Operation[None]:
        """Keep refusals of jobs that are there; of a job the last REFUSALS_OF_JOB_MAX.

        Of too many in all, the oldest are forgotten: REFUSALS_MAX are kept, or a little more.
        """

    @operation(Effect.READ, has_content=False, name="refusals")
    def list(self, job_id: str) -> Operation[list[RefusedWrite]]:
        """Return the refusals of a job that are kept, the newest first."""

    @operation(Effect.READ, has_content=False, name="refusals_total")
    def total(self) -> Operation[int]:
        """Return how many refusals were recorded since the store was made."""
