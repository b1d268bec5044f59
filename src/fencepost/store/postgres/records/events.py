"""Events in PostgreSQL: the SQL for the plans in ``store/sql/records/events.py``."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.job.job import NewJob
from fencepost.core.values.times import from_us
from fencepost.store.interface.records.events import EventReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.enqueue import accept
from fencepost.store.postgres.jobs.rows import CODEC, json_fields
from fencepost.store.postgres.joins.transaction import all_or_none
from fencepost.store.sql.codec import encode_json
from fencepost.store.sql.records.events import EventPlans, EventSql, encode_jobs

# In microseconds: a caller's connection may read times in a way of its own.
SENT_AT = "(extract(epoch from sent_at) * 1000000)::bigint"
COLUMNS = "id, name, key, sent_at, payload_encoding, payload, payload_bytes, jobs"
LOAD = f"""
insert into fencepost.events({COLUMNS})
select id, name, key, sent_at, payload_encoding, payload, decode(payload_hex, 'hex'), jobs
from json_to_recordset(%s::json) as x(
  place integer, id uuid, name text, key text, sent_at timestamptz, payload_encoding smallint,
  payload text, payload_hex text, jobs text
)
order by place
on conflict (id) do nothing returning seq
"""

EVENTS: EventPlans[Env] = EventPlans(
    EventSql(
        send=f"""
insert into fencepost.events({COLUMNS})
values (%s, %s, %s, coalesce(%s::timestamptz, clock_timestamp()), %s, %s, %s, %s)
returning {SENT_AT}
""",
        page=f"""
select seq, id::text, name, key, {SENT_AT}, payload_encoding, payload, payload_bytes, jobs
from fencepost.events{{where}} order by seq desc limit %s
""",
        of_name="name = %s",
        before="seq < %s::bigint",
        # By ctid, so that a row that another session deletes meanwhile is passed over.
        prune="""
delete from fencepost.events where ctid = any (array(
  select ctid from fencepost.events
  where sent_at <= (
    select coalesce(%s::timestamptz, clock_timestamp()) - %s::bigint * interval '1 microsecond'
  )
  order by sent_at, seq limit %s for update skip locked
)) returning seq
""",
    ),
    CODEC._replace(decode_time=from_us),
    # By the server's clock.
    enqueue=lambda env, jobs, *, atomic, now: accept(env, jobs, atomic=atomic),  # noqa: ARG005
)


def send(env: Env, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    """Record *event* and store its handlers' *jobs*; a refusal leaves a caller's transaction."""
    plan = EVENTS.send(env, event, jobs)
    return all_or_none(plan) if env.is_joined else plan


def load(env: Env, events: Sequence[SentEvent]) -> Plan[int]:
    """Store records that are not there yet."""
    fields = [
        {
            "place": place,
            "id": each.id,
            "name": each.name,
            "key": each.key,
            "sent_at": each.sent_at,
            **json_fields("payload", each.payload),
            "jobs": encode_jobs(each.jobs),
        }
        for place, each in enumerate(events)
    ]
    return len((yield Statement(LOAD, (encode_json(fields),))))
