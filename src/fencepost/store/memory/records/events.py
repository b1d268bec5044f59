"""The records of events, in the order they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.clock import Clock
from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import NewJob
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us
from fencepost.store.interface.events import EventPage, EventReply
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.jobs import enqueue as submission
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.records.log import Ledger
from fencepost.store.sql.events import record_of

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


class EventTable:
    """The records."""

    def __init__(self, journal: Journal) -> None:
        self._ledger: Ledger[SentEvent] = Ledger(
            journal, id_of=lambda record: record.id, at_of=lambda record: record.sent_at
        )

    def send(
        self, jobs: JobTable, clock: Clock, event: NewEvent, new: Sequence[NewJob]
    ) -> EventReply:
        """Record *event* with the jobs of its handlers."""
        now = clock.now_us()
        event_id = id_text(event.id or clock.new_id())
        own = jobs_for(event_id, event, new)
        replies = submission.accept(jobs, clock, own, atomic=True, now=now)
        record = record_of(event_id, event, replies, sent_at=from_us(now))
        self._ledger.add(record)
        return EventReply(record, replies)

    def page(self, name: str | None, page: PageRequest) -> EventPage:
        """Return one page of the records, newest first."""
        return EventPage(*self._ledger.page(page, lambda record: name in (None, record.name)))

    def prune(self, keep: float, limit: int, now: int) -> int:
        """Delete the oldest records that were kept long enough."""
        return self._ledger.prune(keep, limit, now)

    def load(self, records: Sequence[SentEvent]) -> int:
        """Record what is not there yet."""
        return sum(self._ledger.add(record) for record in records)


def send(world: MemoryWorld, event: NewEvent, jobs: Sequence[NewJob]) -> EventReply:
    """Record an event with the jobs of its handlers."""
    return world.events.send(world.jobs, world.clock, event, jobs)


def events(world: MemoryWorld, name: str | None, page: PageRequest) -> EventPage:
    """Return a page of the records, newest first."""
    return world.events.page(name, page)


def prune(world: MemoryWorld, keep: float, limit: int) -> int:
    """Delete the oldest records that were kept long enough."""
    return world.events.prune(keep, limit, world.now)


def load(world: MemoryWorld, events: Sequence[SentEvent]) -> int:
    """Record what is not there yet."""
    return world.events.load(events)
