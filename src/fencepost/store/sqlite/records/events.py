"""Events: recorded in one transaction with the jobs of their handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import EMPTY, NewJob
from fencepost.core.values.ids import id_bytes, id_text
from fencepost.core.values.instants import from_us, seconds_to_us, to_us
from fencepost.store.interface.events import EventPage, EventReply
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import ENCODING_NUMBER
from fencepost.store.sql.events import decode_jobs, encode_jobs, record_of
from fencepost.store.sql.positions import cut
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.enqueue import enqueue_at
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import decode_body

COLUMNS = "id, name, key, sent_at, payload_encoding, payload, jobs"
RECORD = f"insert into events({COLUMNS}) {{values}}"
LOAD = f"{RECORD} on conflict(id) do nothing returning id"
PAGE = f"select seq, {COLUMNS} from events{{where}} order by seq desc limit ?"
PRUNE = """
delete from events where seq in (
  select seq from events where sent_at <= ? order by sent_at, seq limit ?
) returning seq
"""


def send(env: Env, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    """Record *event* and store its handlers' *jobs*."""
    now = env.clock.now_us()
    event_id = id_text(event.id or env.clock.new_id())
    replies = yield from enqueue_at(env, jobs_for(event_id, event, jobs), atomic=True, now=now)
    record = record_of(event_id, event, replies, sent_at=from_us(now))
    for sql, params in values(RECORD, [_row(record)]):
        yield Statement(sql, params)
    return EventReply(record, replies)


def events(env: Env, name: str | None, page: PageRequest) -> Plan[EventPage]:
    """Return one page of the records, newest first."""
    conditions: list[str] = []
    params: list[Any] = []
    for condition, value in (("name = ?", name), ("seq < ?", page.after)):
        if value is not None:
            conditions.append(condition)
            params.append(value)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    asked = Statement(PAGE.format(where=where), (*params, page.limit + 1))
    rows, position = cut((yield asked), page.limit)
    return EventPage([_decode(row) for row in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest records that were kept long enough."""
    until = env.clock.now_us() - seconds_to_us(keep)
    rows = yield Statement(PRUNE, (until, max(limit, 0)))
    return len(rows)


def load(env: Env, events: Sequence[SentEvent]) -> Plan[int]:
    """Record what is not there yet."""
    count = 0
    for sql, params in values(LOAD, [_row(record) for record in events]):
        rows = yield Statement(sql, params)
        count += len(rows)
    return count


def _row(record: SentEvent) -> tuple[Any, ...]:
    return (
        id_bytes(record.id),
        record.name,
        record.key,
        to_us(record.sent_at),
        ENCODING_NUMBER[record.payload.encoding],
        record.payload.data,
        encode_jobs(record.jobs),
    )


def _decode(row: Row) -> SentEvent:
    """Return the record of a row. What cannot be read is left out, not raised."""
    _seq, id_, name, key, sent_at, encoding, payload, jobs = row
    return SentEvent(
        id=id_text(id_),
        name=name,
        sent_at=from_us(sent_at),
        payload=decode_body(payload, encoding) or EMPTY,
        key=key,
        jobs=decode_jobs(jobs),
    )
