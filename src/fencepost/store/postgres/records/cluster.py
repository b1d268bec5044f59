"""Who works here, and who leads."""

from __future__ import annotations

from datetime import UTC

import msgspec

from fencepost.core.bounds import WORKER_SILENCE
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.cluster import Term, WorkerInfo
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.sql.texts import encode_json

# A statement cannot delete a row and update it too, so that a worker that had long been silent
# itself is left to the update.
ANNOUNCE = """
with given as (
  select %s::text as id, coalesce(%s::timestamptz, clock_timestamp()) as now, %s::text as info
), forgotten as (
  delete from fencepost.worker using given
  where worker.id <> given.id
    and worker.seen_at < given.now - %s::bigint * interval '1 microsecond'
)
insert into fencepost.worker(id, seen_at, info) select id, now, info from given
on conflict (id) do update set seen_at = excluded.seen_at, info = excluded.info
"""
RETIRE = "delete from fencepost.worker where id = %s"
WORKERS = """
select info, seen_at from fencepost.worker
where seen_at > coalesce(%s::timestamptz, clock_timestamp()) - %s::bigint * interval '1 microsecond'
order by id collate "C"
"""
LEAD = """
with given as (select coalesce(%s::timestamptz, clock_timestamp()) as now)
insert into fencepost.term(name, worker, expires_at)
select %s, %s, now + %s::bigint * interval '1 microsecond' from given
on conflict (name) do update set worker = excluded.worker, expires_at = excluded.expires_at
where term.worker = excluded.worker or term.expires_at <= (select now from given)
returning expires_at
"""
RESIGN = "delete from fencepost.term where name = %s and worker = %s"

_workers = msgspec.json.Decoder(WorkerInfo)


def announce(env: Env, worker: WorkerInfo) -> Plan[None]:
    """Note that a worker is alive, and forget those long silent."""
    info = encode_json(msgspec.structs.replace(worker, seen_at=None))
    silence = 10 * seconds_to_us(WORKER_SILENCE)
    yield Statement(ANNOUNCE, (worker.id, env.now, info, silence), alone=True)


def retire(env: Env, worker_id: str) -> Plan[None]:
    """Forget a worker that has stopped."""
    yield Statement(RETIRE, (worker_id,), alone=True)


def workers(env: Env) -> Plan[list[WorkerInfo]]:
    """Return the workers heard from lately."""
    rows = yield Statement(WORKERS, (env.now, seconds_to_us(WORKER_SILENCE)), alone=True)
    return [
        msgspec.structs.replace(_workers.decode(info), seen_at=seen_at.astimezone(UTC))
        for info, seen_at in rows
    ]


def lead(env: Env, name: str, worker: str, ttl: float) -> Plan[Term | None]:
    """Take or keep a term; None while somebody else holds it."""
    params = (env.now, name, worker, seconds_to_us(ttl))
    rows = yield Statement(LEAD, params, alone=True)
    return Term(name, worker, rows[0][0].astimezone(UTC)) if rows else None


def resign(env: Env, name: str, worker: str) -> Plan[None]:
    """Give up one's own term."""
    yield Statement(RESIGN, (name, worker), alone=True)
