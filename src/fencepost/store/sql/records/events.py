"""Events: recorded in one transaction with the jobs of their handlers.

Plans over the SQL of an engine; the record itself is the same in every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple

import msgspec

from fencepost.core.events import EventJob, NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import EMPTY, NewJob
from fencepost.core.values.names import id_text
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import Duplicate, EnqueueReply
from fencepost.store.interface.records.events import EventPage, EventReply
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import Codec, E, Enqueue, SqlEnv
from fencepost.store.sql.paging import cut

_jobs = msgspec.json.Decoder(tuple[EventJob, ...])


class EventSql(NamedTuple):
    """Statements about events, with their parameters."""

    send: str
    """id, name, key, now, the columns of the payload, jobs; returns the time of the record"""
    page: str
    """how many, after the parameters of ``{where}``"""
    of_name: str
    """the condition that an event has a name"""
    before: str
    """the condition that it has a lower number"""
    prune: str
    """now, microseconds to keep, how many; returns a row for each"""


class EventPlans(NamedTuple, Generic[E]):
    """What the engines share; each loads many records in its own way."""

    sql: EventSql
    codec: Codec
    enqueue: Enqueue[E]

    def send(self, env: E, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
        """Record *event* and store its handlers' *jobs*."""
        now = env.now
        event_id = id_text(event.id or env.clock.new_id())
        own = jobs_for(event_id, event, jobs)
        replies = yield from self.enqueue(env, own, atomic=True, now=now)
        params = (
            self.codec.encode_id(event_id),
            event.name,
            event.key,
            now,
            *self.codec.encode_body(event.payload),
            encode_jobs(event_jobs(replies)),
        )
        ((sent_at,),) = yield Statement(self.sql.send, params)
        record = record_of(event_id, event, replies, sent_at=self.codec.decode_time(sent_at))
        return EventReply(record, replies)

    def events(self, env: SqlEnv, name: str | None, page: PageRequest) -> Plan[EventPage]:
        """Return one page of the records, newest first."""
        conditions: list[str] = []
        params: list[Any] = []
        for condition, value in ((self.sql.of_name, name), (self.sql.before, page.after)):
            if value is not None:
                conditions.append(condition)
                params.append(value)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        rows = yield Statement(self.sql.page.format(where=where), (*params, page.limit + 1))
        shown, position = cut(rows, page.limit)
        return EventPage([self._decode(row) for row in shown], position)

    def prune(self, env: SqlEnv, keep: float, limit: int) -> Plan[int]:
        """Delete the oldest records that were kept long enough."""
        params = (env.now, seconds_to_us(keep), max(limit, 0))
        return len((yield Statement(self.sql.prune, params, alone=True)))

    def _decode(self, row: Row) -> SentEvent:
        """Return the record of a row. What cannot be read is left out, not raised."""
        _seq, id_, name, key, sent_at, *payload, jobs = row
        return SentEvent(
            id=self.codec.decode_id(id_),
            name=name,
            sent_at=self.codec.decode_time(sent_at),
            payload=self.codec.decode_body(*payload) or EMPTY,
            key=key,
            jobs=decode_jobs(jobs),
        )


def record_of(
    event_id: str, event: NewEvent, replies: Sequence[EnqueueReply], *, sent_at: datetime
) -> SentEvent:
    """Return the record of an event, given the replies to its handlers' jobs."""
    return SentEvent(
        id=event_id,
        name=event.name,
        sent_at=sent_at,
        payload=event.payload,
        key=event.key,
        jobs=event_jobs(replies),
    )


def event_jobs(replies: Sequence[EnqueueReply]) -> tuple[EventJob, ...]:
    """Return the jobs that an event reached: new ones and those that were there."""
    return tuple(
        EventJob(reply.job_id, reply.type, isinstance(reply, Duplicate)) for reply in replies
    )


def encode_jobs(jobs: Sequence[EventJob]) -> str:
    """Return the column of an event's jobs."""
    return msgspec.json.encode(jobs).decode()


def decode_jobs(text: str) -> tuple[EventJob, ...]:
    """Return an event's jobs; none if they cannot be read."""
    try:
        return _jobs.decode(text)
    except (msgspec.DecodeError, TypeError):
        return ()
