"""A store as a whole: its queues and types, what ended, its condition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.overview import Finding as Finding
from fencepost.core.overview import QueueView as QueueView
from fencepost.core.overview import TypeView as TypeView
from fencepost.core.statistics import EndedJob
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class EndedPage(msgspec.Struct, frozen=True):
    """Jobs in the order of their end, and the position of the last; None when there are no more."""

    jobs: list[EndedJob]
    next: int | None = None


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

        One may be seen late, at a place that was read before: see ``core.ended``.
        """

    @operation(Effect.READ, has_content=False, is_long=True)
    def inspect(self) -> Operation[list[Finding]]:
        """Look for what an operator should know, durability first."""
