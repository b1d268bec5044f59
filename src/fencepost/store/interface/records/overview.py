"""A store as a whole: its queues and types, what ended, its condition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.flows.listing import FlowRequest, FlowSummary
from fencepost.core.stats.overview import Finding as Finding
from fencepost.core.stats.overview import QueueView as QueueView
from fencepost.core.stats.overview import TypeView as TypeView
from fencepost.core.stats.statistics import EndedJob
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class EndedPage(msgspec.Struct, frozen=True):
    """Jobs in the order of their end, and the position of the last; None when there are no more."""

    jobs: list[EndedJob]
    next: int | None = None


class FlowPage(msgspec.Struct, frozen=True):
    """Flows, newest first, and after which one the next page begins; None when there are no more.

    A page may have fewer flows than were asked for, or none, and still have a next one.
    """

    flows: list[FlowSummary]
    next: str | None = None


class OverviewFacet(Facet, abstract=True):
    """A store as a whole: its queues and types, what ended, its condition."""

    @operation(Effect.READ, has_content=False, is_long=True)
    def queues(self, names: Sequence[str] | None = None) -> Operation[list[QueueView]]:
        """Return every queue that has had a job or a setting, by name, or those of *names*."""

    @operation(Effect.READ, has_content=False, is_long=True)
    def types(self, names: Sequence[str] | None = None) -> Operation[list[TypeView]]:
        """Return every type that has had a job or a setting, by name, or those of *names*."""

    @operation(Effect.READ, has_content=False)
    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> Operation[EndedPage]:
        """Return jobs that ended at *since* or later, in the order of their end, beyond *after*.

        A job may appear late, at a position that was read before: see ``core/stats/statistics.py``.
        """

    @operation(Effect.READ, has_content=False)
    def flows(self, request: FlowRequest) -> Operation[FlowPage]:
        """Return flows by id, the highest first, which of ids that an app makes is the newest.

        A page ends when it has counted FLOW_JOBS_MAX jobs, however few of its flows were wanted.
        """

    @operation(Effect.READ, has_content=False, is_long=True)
    def inspect(self) -> Operation[list[Finding]]:
        """Look for what an operator should know, durability first."""
