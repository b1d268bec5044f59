"""Events in SQLite: the SQL for the plans in ``store/sql/records/events.py``."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.events import SentEvent
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.records.events import EventPlans, EventSql, encode_jobs
from fencepost.store.sqlite.flows.enqueue import enqueue_at
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import CODEC, values

COLUMNS = "id, name, key, sent_at, payload, payload_encoding, jobs"
LOAD = f"insert into events({COLUMNS}) {{values}} on conflict(id) do nothing returning id"

EVENTS: EventPlans[Env] = EventPlans(
    EventSql(
        send=f"insert into events({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?) returning sent_at",
        page=f"select seq, {COLUMNS} from events{{where}} order by seq desc limit ?",
        of_name="name = ?",
        before="seq < ?",
        prune="""
delete from events where seq in (
  select seq from events where sent_at <= ? - ? order by sent_at, seq limit ?
) returning seq
""",
    ),
    CODEC,
    enqueue_at,
)


def load(env: Env, events: Sequence[SentEvent]) -> Plan[int]:
    """Store records that are not there yet."""
    count = 0
    rows = [
        (
            CODEC.encode_id(each.id),
            each.name,
            each.key,
            CODEC.encode_time(each.sent_at),
            *CODEC.encode_body(each.payload),
            encode_jobs(each.jobs),
        )
        for each in events
    ]
    for sql, params in values(LOAD, rows):
        count += len((yield Statement(sql, params)))
    return count
