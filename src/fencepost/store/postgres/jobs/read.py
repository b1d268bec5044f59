"""Reading jobs in PostgreSQL: the SQL for the plans in ``store/sql/read.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs import search
from fencepost.store.postgres.jobs.catalog import QUEUES, Env
from fencepost.store.postgres.jobs.rows import CODEC, JOB_COLUMNS
from fencepost.store.postgres.limits.concurrency import active
from fencepost.store.postgres.limits.rates import usage_of
from fencepost.store.postgres.records.cluster import CLUSTER
from fencepost.store.sql.read import ReadPlans, ReadSql
from fencepost.store.sql.settings import SettingPlans

NOW = "coalesce(%s::timestamptz, clock_timestamp())"


def _by_ids(sql: str, ids: Sequence[str], *before: Any) -> Plan[list[Row]]:
    return (yield Statement(sql, (*before, ids)))


SETTINGS = SettingPlans(schema="fencepost.", mark="%s")

READER: ReadPlans[Env] = ReadPlans(
    ReadSql(
        get=f"select {JOB_COLUMNS}, {NOW} from fencepost.jobs where id = any (%s::uuid[])",
        show=f"""
select {JOB_COLUMNS}, {NOW} from fencepost.jobs where seq = any (%s) order by seq desc
""",
        ids="select seq, id::text from fencepost.submissions where seq = any (%s)",
        locate=QUEUES,
        last_attempt="""
select seq, state, lease_version, attempt, worker, started_at, completed_at
from fencepost.jobs where id = %s::uuid
""",
        past_attempts="""
select lease_version, number, worker, outcome, started_at, ended_at, failure
from fencepost.attempts where seq = %s order by lease_version
""",
        running=f"""
select
  coalesce(sum(cardinality(e.seqs)) filter (where l.queue = %s), 0)::bigint,
  coalesce(sum(cardinality(e.seqs)), 0)::bigint, {NOW}
from fencepost.leases e join fencepost.lanes l on l.lane = e.lane
where e.expires_at > {NOW}
""",
        # Claimable jobs with a lower priority number, then those before it in the job's own lane.
        jobs_ahead="""
select count(*) from (
  select 1 from fencepost.submissions j
  join fencepost.lanes own on own.lane = j.lane
  join fencepost.marked_lanes l
    on l.queue = own.queue and l.type = own.type and l.priority < own.priority
  cross join lateral (
    select 1 from fencepost.ready r where r.lane = l.lane and r.run_at >= l.low
    order by r.run_at, r.seq limit 1000
  ) as before
  where j.id = %s::uuid
  union all
  select 1 from fencepost.submissions j
  join fencepost.marked_lanes l on l.lane = j.lane
  cross join lateral (
    select 1 from fencepost.ready r
    where r.lane = l.lane and r.run_at >= l.low and (r.run_at, r.seq) < (%s, j.seq)
    order by r.run_at, r.seq limit 1000
  ) as before
  where j.id = %s::uuid
  limit 1000
) as ahead
""",
        dependencies="""
select c.id::text, p.id::text, l.type, coalesce(d.state, (
    select state from fencepost.jobs where jobs.seq = p.seq
  ))::smallint, p.node, {result}
from fencepost.submissions c
join fencepost.dependencies on dependencies.child = c.seq
join fencepost.submissions p on p.seq = dependencies.parent
join fencepost.lanes l on l.lane = p.lane
left join fencepost.done d on d.seq = p.seq
where c.id = any (%s::uuid[]) order by c.seq, dependencies.place
""",
        result="d.result_encoding, d.result, d.result_bytes",
        no_result="null, null, null",
        dependents="""
select p.id::text, c.id::text from fencepost.submissions p
join fencepost.dependencies on dependencies.parent = p.seq
join fencepost.submissions c on c.seq = dependencies.child
where p.id = any (%s::uuid[]) order by c.seq
""",
        dead_letters="""
select d.seq, j.id::text, l.type, l.queue, d.state, d.attempt, d.failure, d.completed_at
from fencepost.done d
join fencepost.submissions j on j.seq = d.seq
join fencepost.lanes l on l.lane = j.lane
where d.is_dead_letter and {conditions}
order by d.completed_at desc, d.seq desc limit %s
""",
        of_type="l.type = %s",
        of_queues="l.queue = any (%s::text[])",
        older="(d.completed_at, d.seq) < (%s, %s)",
    ),
    CODEC,
    CLUSTER,
    SETTINGS,
    by_ids=_by_ids,
    search=search.find,
    ahead_params=lambda job: (job.id, job.run_at, job.id),
    usage_of=usage_of,
    active=active,
)
