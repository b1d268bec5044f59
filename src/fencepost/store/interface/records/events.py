"""Events, and the records of those that were sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import NewJob
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.plan import Effect, Operation, Wakes


class EventReply(msgspec.Struct, frozen=True):
    """The event is recorded, and so are the jobs of its handlers, in the order they were given."""

    event: SentEvent
    jobs: list[EnqueueReply]
    """What became of each handler's job; a duplicate is reported here, and is in the record too."""


class EventPage(msgspec.Struct, frozen=True):
    """Records of events, newest first, and the position of the last; None when there is no more."""

    events: list[SentEvent]
    next: int | None = None


class EventsFacet(Facet, abstract=True):
    """Events, and the records of those that were sent."""

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY, jobs_at=1)
    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> Operation[EventReply]:
        """Record *event* and store its handlers' *jobs*, all or none; each is marked as its own.

        A key that is held makes a duplicate, which is reported and recorded; one that asks to be
        refused raises DuplicateJobError, and nothing is stored.
        """

    @operation(Effect.WRITE, has_content=False, name="prune_events")
    def prune(self, keep: float, limit: int) -> Operation[int]:
        """Delete records of events sent *keep* seconds ago or longer, at most *limit*; count them.

        The oldest first; jobs are not touched.
        """

    @operation(Effect.WRITE, has_content=True, name="load_events")
    def load(self, events: Sequence[SentEvent]) -> Operation[int]:
        """Record events as another store had them, in this order; return how many were new.

        One whose id is known is left alone.
        """

    @operation(Effect.READ, has_content=True, name="events")
    def list(self, name: str | None, page: PageRequest) -> Operation[EventPage]:
        """Return a page of the records of events (of one name), newest first."""
