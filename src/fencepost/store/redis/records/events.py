"""Events: recorded in one commit with the jobs of their handlers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import id_text
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.store.interface.records.events import EventPage, EventReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_text
from fencepost.store.redis.jobs.enqueue import accept
from fencepost.store.redis.records.log import RecordLog
from fencepost.store.sql.records.events import record_of

EVENTS = RecordLog("event")

_events = msgspec.msgpack.Decoder(SentEvent)


def send(env: Env, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    """Record *event* and store its handlers' *jobs*."""
    unit = Unit(env)
    now = yield from unit.start()
    event_id = id_text(event.id or env.clock.new_id())
    placed = yield from accept(unit, jobs_for(event_id, event, jobs), atomic=True)
    replies = [each.reply for each in placed]
    record = record_of(event_id, event, replies, sent_at=from_us(now))
    yield from append(unit, [record])
    yield from unit.commit()
    return EventReply(record, replies)


def append(unit: Unit, records: Sequence[SentEvent]) -> Plan[None]:
    numbers = yield from EVENTS.append(
        unit, [(msgspec.msgpack.encode(each), to_us(each.sent_at)) for each in records]
    )
    for number, each in zip(numbers, records, strict=True):
        unit.do(b"ZADD", unit.env.key("events", each.name), number, number_text(number))
        unit.do(b"HSET", unit.env.key("event_ids"), each.id.encode(), b"1")


def load(env: Env, events: Sequence[SentEvent]) -> Plan[int]:
    """Store records that are not there yet."""
    unit = Unit(env)
    fresh: dict[str, SentEvent] = {}
    for each in events:
        known = yield from unit.field(env.key("event_ids"), each.id.encode())
        if known is None:
            fresh.setdefault(each.id, each)
    yield from append(unit, list(fresh.values()))
    yield from unit.commit()
    return len(fresh)


def events(env: Env, name: str | None, page: PageRequest) -> Plan[EventPage]:
    """Return one page of the records, newest first."""
    index = None if name is None else env.key("events", name)
    rows, position = yield from EVENTS.page(env, page, index)
    return EventPage([_events.decode(text) for text in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest records that were kept long enough."""
    unit = Unit(env)
    now = yield from unit.start()
    old = yield from EVENTS.older(unit, now - seconds_to_us(keep), limit)
    for number, text in old.items():
        event = _events.decode(text)
        unit.do(b"ZREM", env.key("events", event.name), number_text(number))
        unit.do(b"HDEL", env.key("event_ids"), event.id.encode())
    yield from unit.commit()
    return len(old)
