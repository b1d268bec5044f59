"""Lists of flows in PostgreSQL: the SQL for the plans in ``store/sql/flows.py``."""

from __future__ import annotations

from fencepost.core.bounds import FLOW_JOBS_MAX
from fencepost.core.job.lifecycle import State
from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.codec import NUMBER
from fencepost.store.sql.flows import FLOW_PORTION, FlowPlans, FlowSql

SIZE = f"""
(select count(*) from (
  select 1 from fencepost.submissions x where x.flow = f.flow limit {FLOW_JOBS_MAX + 1}
) as counted)
"""

FLOWS = FlowPlans(
    FlowSql(
        newest=f"""
with recursive f(flow, number, before) as (
  select (
    select flow from fencepost.submissions where flow is not null and {{below}}
    order by flow desc limit 1
  ), 1, 0::bigint
  union all
  select (
    select j.flow from fencepost.submissions j where j.flow is not null and j.flow < f.flow
    order by j.flow desc limit 1
  ), f.number + 1, f.before + {SIZE}
  from f where f.flow is not null and f.number <= {FLOW_PORTION} and f.before < {FLOW_JOBS_MAX}
)
select f.flow, {SIZE} from f order by f.number
""",
        below="flow < %s",
        whole="flow = any(%s::text[])",
        sample="seq in (select seq from fencepost.submissions where flow = %s limit %s)",
        # With a limit in each, so that the planner looks up each job by its number: it would read
        # whole tables if it took the flows for large ones.
        groups=f"""
with picked as materialized (
  select seq, id, flow, lane, created_at, correlation_id, replay_of
  from fencepost.submissions where {{source}}
), leased as materialized (
  select unnest(seqs) as seq, started_at from fencepost.leases
)
select s.flow, l.type, x.state, count(*), min(s.created_at), min(x.started_at),
  max(x.completed_at), min(s.seq), min(s.correlation_id)
from picked s join fencepost.lanes l on l.lane = s.lane
left join leased e on e.seq = s.seq
left join lateral (
  select * from fencepost.done d where d.seq = s.seq limit 1
) d on true
left join lateral (
  select state from fencepost.delayed w where w.seq = s.seq and d.seq is null limit 1
) w on true
left join lateral (
  select seq from fencepost.pending p where p.seq = s.seq and d.seq is null limit 1
) p on true
cross join lateral (
  select coalesce(d.state, w.state, case
      when p.seq is not null then {NUMBER[State.PENDING]}
      when e.seq is not null then {NUMBER[State.RUNNING]}
      else {NUMBER[State.SCHEDULED]} end) as state,
    d.completed_at,
    case when d.state = {NUMBER[State.COMPLETED]} then d.started_at
      else coalesce(d.started_at, e.started_at, (
        select max(a.started_at) from fencepost.attempts a where a.seq = s.seq)) end as started_at
) x
where s.id not in (select replay_of from picked where replay_of is not null) and {{scope}}
group by s.flow, l.queue, l.type, x.state
""",
        scope="l.queue = any(%s::text[])",
    ),
    CODEC,
)
