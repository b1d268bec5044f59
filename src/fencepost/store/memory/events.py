"""The records of events, in the order they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from fencepost.clock import Clock
from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.ids import id_text
from fencepost.core.instants import from_us, seconds_to_us, to_us
from fencepost.core.job import NewJob
from fencepost.store.memory import submission
from fencepost.store.memory.jobs import Jobs
from fencepost.store.memory.journal import Journal
from fencepost.store.memory.roll import Roll
from fencepost.store.recording import record_of
from fencepost.store.replies import EventPage, EventReply


class Events:
    """The records. Every change is journalled, so that it stands or falls with its operation."""

    def __init__(self, journal: Journal) -> None:
        self._roll: Roll[tuple[int, SentEvent]] = Roll()
        self._ids: set[str] = set()
        self._journal = journal
        self._last_number = 0

    def send(self, jobs: Jobs, clock: Clock, event: NewEvent, new: Sequence[NewJob]) -> EventReply:
        """Record *event* with the jobs of its handlers."""
        now = clock.now_us()
        event_id = id_text(event.id or clock.new_id())
        own = jobs_for(event_id, event, new)
        replies = submission.enqueue(jobs, clock, own, atomic=True, now=now)
        record = record_of(event_id, event, replies, sent_at=from_us(now))
        self._add(record)
        return EventReply(record, replies)

    def page(self, name: str | None, page: PageRequest) -> EventPage:
        """Return one page of the records, newest first."""
        wanted = (each for each in self._roll.before(page.after) if name in (None, each[1].name))
        found = list(islice(wanted, page.limit + 1))
        shown = found[: page.limit]
        has_more = len(found) > len(shown) > 0
        return EventPage([record for _, record in shown], shown[-1][0] if has_more else None)

    def prune(self, keep: float, limit: int, now: int) -> int:
        """Delete the oldest records that were kept long enough."""
        until = now - seconds_to_us(keep)
        old = (each for each in self._roll.after(0) if to_us(each[1].sent_at) <= until)
        doomed = sorted(old, key=lambda each: (each[1].sent_at, each[0]))[: max(limit, 0)]
        for number, record in doomed:
            self._remove(number, record)
        return len(doomed)

    def load(self, records: Sequence[SentEvent]) -> int:
        """Record what is not there yet."""
        before = len(self._ids)
        for record in records:
            if record.id not in self._ids:
                self._add(record)
        return len(self._ids) - before

    def _add(self, record: SentEvent) -> None:
        self._last_number += 1
        self._enter(self._last_number, record)
        self._journal.note(partial(self._strike, self._last_number, record))

    def _remove(self, number: int, record: SentEvent) -> None:
        self._strike(number, record)
        self._journal.note(partial(self._enter, number, record))

    def _enter(self, number: int, record: SentEvent) -> None:
        self._roll.add(number, (number, record))
        self._ids.add(record.id)

    def _strike(self, number: int, record: SentEvent) -> None:
        self._roll.remove(number)
        self._ids.remove(record.id)
