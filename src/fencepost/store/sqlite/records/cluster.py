"""Who works here, and who leads."""

from __future__ import annotations

import msgspec

from fencepost.core.bounds import WORKER_SILENCE
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.store.interface.cluster import Term, WorkerInfo
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.texts import encode_json
from fencepost.store.sqlite.jobs.catalog import Env

ANNOUNCE = """
insert into workers(id, seen_at, info) values (?, ?, ?)
on conflict(id) do update set seen_at = excluded.seen_at, info = excluded.info
"""
FORGET_SILENT = "delete from workers where seen_at < ?"
RETIRE = "delete from workers where id = ?"
WORKERS = "select info, seen_at from workers where seen_at > ? order by id"
LEAD = """
insert into terms(name, worker, expires_at) values (?, ?, ?)
on conflict(name) do update set worker = excluded.worker, expires_at = excluded.expires_at
where terms.worker = excluded.worker or terms.expires_at <= ?
returning expires_at
"""
RESIGN = "delete from terms where name = ? and worker = ?"

_workers = msgspec.json.Decoder(WorkerInfo)


def announce(env: Env, worker: WorkerInfo) -> Plan[None]:
    """Note that a worker is alive, and forget those long silent."""
    now = env.clock.now_us()
    info = msgspec.structs.replace(worker, seen_at=None)
    yield Statement(FORGET_SILENT, (now - 10 * seconds_to_us(WORKER_SILENCE),))
    yield Statement(ANNOUNCE, (worker.id, now, encode_json(info)))


def retire(env: Env, worker_id: str) -> Plan[None]:
    """Forget a worker that has stopped."""
    yield Statement(RETIRE, (worker_id,))


def workers(env: Env) -> Plan[list[WorkerInfo]]:
    """Return the workers heard from lately."""
    since = env.clock.now_us() - seconds_to_us(WORKER_SILENCE)
    rows = yield Statement(WORKERS, (since,))
    return [
        msgspec.structs.replace(_workers.decode(info), seen_at=from_us(seen_at))
        for info, seen_at in rows
    ]


def lead(env: Env, name: str, worker: str, ttl: float) -> Plan[Term | None]:
    """Take or keep a term; None while somebody else holds it."""
    now = env.clock.now_us()
    rows = yield Statement(LEAD, (name, worker, now + seconds_to_us(ttl), now))
    return Term(name, worker, from_us(rows[0][0])) if rows else None


def resign(env: Env, name: str, worker: str) -> Plan[None]:
    """Give up one's own term."""
    yield Statement(RESIGN, (name, worker))
