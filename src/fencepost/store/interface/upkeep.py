"""Upkeep: bounded, idempotent, safe to run twice at once."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fencepost.core.job.lifecycle import State
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Effect, Operation, Wakes


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete terminal jobs that have been kept long enough, looking from *after* on."""

    keep: dict[State, float]
    """Seconds to keep each terminal state; a state that is missing is kept."""
    keep_by_type: dict[str, dict[State, float]] = {}
    """The same for the jobs of some types, in the place of ``keep``."""
    after: int = 0
    limit: int

    @property
    def shortest(self) -> float | None:
        """The shortest that any job is kept; None if all are kept."""
        kept = [self.keep, *self.keep_by_type.values()]
        return min((seconds for keep in kept for seconds in keep.values()), default=None)


class Pruned(msgspec.Struct, frozen=True):
    """How many jobs were deleted, and from where to look on; None when all has been seen."""

    count: int
    next: int | None


class UpkeepFacet(Facet, abstract=True):
    """Upkeep: bounded, idempotent, safe to run twice at once."""

    @operation(Effect.WRITE, has_content=False, wakes=Wakes.READY)
    def recover(self, limit: int, unstarted: Collection[str] = ()) -> Operation[list[Moved]]:
        """Take back jobs whose leases ran out; each counts as a failed attempt.

        Except those of which a caller knows that they never started: *unstarted* are the tokens of
        their leases. They go back as if they had been released (C41).
        """

    @operation(Effect.LEASE, has_content=False, wakes=Wakes.READY)
    def promote(self, limit: int) -> Operation[list[Moved]]:
        """Make due jobs claimable."""

    @operation(Effect.WRITE, has_content=False)
    def expire(self, limit: int) -> Operation[list[Moved]]:
        """Dead-letter live jobs past their lifetime."""

    @operation(Effect.WRITE, has_content=False)
    def prune(self, request: PruneRequest) -> Operation[Pruned]:
        """Delete terminal jobs that have been kept long enough."""

    @operation(Effect.LEASE, has_content=False)
    def tidy(self) -> Operation[None]:
        """Keep the engine's own books in order; see ``tidy_interval``."""
