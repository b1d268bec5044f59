"""Workers and terms in SQLite: the SQL for the plans in ``store/sql/records/cluster.py``."""

from __future__ import annotations

from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.records.cluster import (
    FORGOTTEN_US,
    ClusterPlans,
    ClusterSql,
    encode_worker,
)
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import CODEC

FORGET_SILENT = "delete from workers where seen_at < ?"
ANNOUNCE = """
insert into workers(id, seen_at, info) values (?, ?, ?)
on conflict(id) do update set seen_at = excluded.seen_at, info = excluded.info
"""

CLUSTER = ClusterPlans(
    ClusterSql(
        retire="""
update workers set seen_at = ?, info = json_set(info, '$.has_stopped', json('true')) where id = ?
""",
        workers="""
with given(now, silence, term) as (select ?, ?, ?)
select info, seen_at, exists (
  select 1 from terms
  where terms.name = term and terms.worker = workers.id and terms.expires_at > now)
from given, workers
where seen_at > now - silence and not coalesce(json_extract(info, '$.has_stopped'), 0)
order by id
""",
        gone="""
with given(now, kept, silence) as (select ?, ?, ?)
select info, seen_at from given, workers
where seen_at > now - kept
  and (seen_at <= now - silence or coalesce(json_extract(info, '$.has_stopped'), 0))
order by seen_at desc, id limit ?
""",
        lead="""
with given(now) as (select ?)
insert into terms(name, worker, expires_at) select ?, ?, now + ? from given where true
on conflict(name) do update set worker = excluded.worker, expires_at = excluded.expires_at
where terms.worker = excluded.worker or terms.expires_at <= (select now from given)
returning expires_at
""",
        resign="delete from terms where name = ? and worker = ?",
    ),
    CODEC,
)


def announce(env: Env, worker: WorkerInfo) -> Plan[None]:
    """Note that a worker is alive, and forget those that were silent for long."""
    now = env.now
    yield Statement(FORGET_SILENT, (now - FORGOTTEN_US,))
    yield Statement(ANNOUNCE, (worker.id, now, encode_worker(worker)))
