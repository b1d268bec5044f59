"""Events: recorded in one transaction with the jobs of their handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import EMPTY, NewJob
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.events import EventPage, EventReply
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.enqueue import accept
from fencepost.store.postgres.jobs.rows import body_fields, decode_body, utc
from fencepost.store.postgres.joins.savepoint import all_or_none
from fencepost.store.sql.events import decode_jobs, encode_jobs, event_jobs, record_of
from fencepost.store.sql.positions import cut
from fencepost.store.sql.texts import encode_json

COLUMNS = "id, name, key, sent_at, encoding, payload, payload_bytes, jobs"
SEND = f"""
insert into fencepost.event({COLUMNS})
values (%s, %s, %s, coalesce(%s::timestamptz, clock_timestamp()), %s, %s, %s, %s)
returning sent_at
"""
LOAD = f"""
insert into fencepost.event({COLUMNS})
select id, name, key, sent_at, encoding, payload, decode(payload_hex, 'hex'), jobs
from json_to_recordset(%s::json) as x(
  place integer, id uuid, name text, key text, sent_at timestamptz, encoding smallint,
  payload text, payload_hex text, jobs text
)
order by place
on conflict (id) do nothing returning seq
"""
PAGE = """
select seq, id::text, name, key, sent_at, encoding, payload, payload_bytes, jobs
from fencepost.event{where} order by seq desc limit %s
"""
# By place, so that one that somebody else deletes meanwhile is passed over.
PRUNE = """
delete from fencepost.event where ctid = any (array(
  select ctid from fencepost.event
  where sent_at <= (
    select coalesce(%s::timestamptz, clock_timestamp()) - %s::bigint * interval '1 microsecond'
  )
  order by sent_at, seq limit %s for update skip locked
)) returning seq
"""


def send(env: Env, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    """Record *event* and store its handlers' *jobs*."""
    plan = _send(env, event, jobs)
    return all_or_none(plan) if env.is_joined else plan


def _send(env: Env, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    event_id = id_text(event.id or env.clock.new_id())
    replies = yield from accept(env, jobs_for(event_id, event, jobs), atomic=True)
    body = body_fields(event.payload)
    params = (event_id, event.name, event.key, env.now, *body, encode_jobs(event_jobs(replies)))
    ((sent_at,),) = yield Statement(SEND, params)
    return EventReply(record_of(event_id, event, replies, sent_at=utc(sent_at)), replies)


def events(env: Env, name: str | None, page: PageRequest) -> Plan[EventPage]:
    """Return one page of the records, newest first."""
    conditions: list[str] = []
    params: list[Any] = []
    for condition, value in (("name = %s", name), ("seq < %s::bigint", page.after)):
        if value is not None:
            conditions.append(condition)
            params.append(value)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    asked = Statement(PAGE.format(where=where), (*params, page.limit + 1))
    rows, position = cut((yield asked), page.limit)
    return EventPage([_decode(row) for row in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest records that were kept long enough."""
    rows = yield Statement(PRUNE, (env.now, seconds_to_us(keep), max(limit, 0)), alone=True)
    return len(rows)


def load(env: Env, events: Sequence[SentEvent]) -> Plan[int]:
    """Record what is not there yet."""
    fields = [_fields(record, place) for place, record in enumerate(events)]
    rows = yield Statement(LOAD, (encode_json(fields),))
    return len(rows)


def _fields(record: SentEvent, place: int) -> dict[str, Any]:
    encoding, text, data = body_fields(record.payload)
    return {
        "place": place,
        "id": record.id,
        "name": record.name,
        "key": record.key,
        "sent_at": record.sent_at,
        "encoding": encoding,
        "payload": text,
        "payload_hex": None if data is None else data.hex(),
        "jobs": encode_jobs(record.jobs),
    }


def _decode(row: Row) -> SentEvent:
    """Return the record of a row. What cannot be read is left out, not raised."""
    _seq, id_, name, key, sent_at, encoding, payload, payload_bytes, jobs = row
    return SentEvent(
        id=id_,
        name=name,
        sent_at=utc(sent_at),
        payload=decode_body(encoding, payload, payload_bytes) or EMPTY,
        key=key,
        jobs=decode_jobs(jobs),
    )
