"""Workers and terms in PostgreSQL: the SQL for the plans in ``store/sql/records/cluster.py``."""

from __future__ import annotations

from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.records.cluster import (
    FORGOTTEN_US,
    ClusterPlans,
    ClusterSql,
    encode_worker,
)

# One round trip. A statement cannot delete a row and update it too, so a worker that had long been
# silent itself is left to the update.
ANNOUNCE = """
with given as (
  select %s::text as id, coalesce(%s::timestamptz, clock_timestamp()) as now, %s::text as info
), forgotten as (
  delete from fencepost.workers using given
  where workers.id <> given.id
    and workers.seen_at < given.now - %s::bigint * interval '1 microsecond'
)
insert into fencepost.workers(id, seen_at, info) select id, now, info from given
on conflict (id) do update set seen_at = excluded.seen_at, info = excluded.info
"""

CLUSTER = ClusterPlans(
    ClusterSql(
        retire="""
update fencepost.workers set seen_at = coalesce(%s::timestamptz, clock_timestamp()),
  info = (info::jsonb || '{"has_stopped": true}'::jsonb)::text
where id = %s
""",
        workers="""
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) as now,
    %s::bigint * interval '1 microsecond' as silence, %s::text as term
)
select info, seen_at, exists (
  select 1 from fencepost.terms t
  where t.name = given.term and t.worker = workers.id and t.expires_at > given.now)
from given, fencepost.workers
where seen_at > given.now - given.silence
  and (info::jsonb ->> 'has_stopped') is distinct from 'true'
order by id collate "C"
""",
        gone="""
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) as now,
    %s::bigint * interval '1 microsecond' as kept, %s::bigint * interval '1 microsecond' as silence
)
select info, seen_at from given, fencepost.workers
where seen_at > given.now - given.kept
  and (seen_at <= given.now - given.silence or info::jsonb ->> 'has_stopped' = 'true')
order by seen_at desc, id collate "C" limit %s
""",
        lead="""
with given as (select coalesce(%s::timestamptz, clock_timestamp()) as now)
insert into fencepost.terms(name, worker, expires_at)
select %s, %s, now + %s::bigint * interval '1 microsecond' from given
on conflict (name) do update set worker = excluded.worker, expires_at = excluded.expires_at
where terms.worker = excluded.worker or terms.expires_at <= (select now from given)
returning expires_at
""",
        resign="delete from fencepost.terms where name = %s and worker = %s",
    ),
    CODEC,
)


def announce(env: Env, worker: WorkerInfo) -> Plan[None]:
    """Note that a worker is alive, and forget those that were silent for long."""
    params = (worker.id, env.now, encode_worker(worker), FORGOTTEN_US)
    yield Statement(ANNOUNCE, params, alone=True)
