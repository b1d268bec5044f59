"""Lists of flows in SQLite: the SQL for the plans in ``store/sql/flows.py``."""

from __future__ import annotations

from fencepost.core.bounds import FLOW_JOBS_MAX
from fencepost.store.sql.flows import FLOW_PORTION, FlowPlans, FlowSql
from fencepost.store.sqlite.jobs.rows import CODEC

SIZE = f"""
(select count(*) from (select 1 from jobs x where x.flow = f.flow limit {FLOW_JOBS_MAX + 1}))
"""

FLOWS = FlowPlans(
    FlowSql(
        newest=f"""
with recursive f(flow, number, before) as (
  select (
    select flow from jobs where flow is not null and {{below}} order by flow desc limit 1
  ), 1, 0
  union all
  select (
    select flow from jobs where flow is not null and flow < f.flow order by flow desc limit 1
  ), f.number + 1, f.before + {SIZE}
  from f where f.flow is not null and f.number <= {FLOW_PORTION} and f.before < {FLOW_JOBS_MAX}
)
select f.flow, {SIZE} from f order by f.number
""",
        below="flow < ?",
        whole="flow in (select value from json_each(?))",
        sample="seq in (select seq from jobs where flow = ? order by seq desc limit ?)",
        groups="""
with some as materialized (
  select seq, id, flow, lane, state, created_at, started_at, completed_at, correlation_id, replay_of
  from jobs where {source}
)
select some.flow, lanes.type, some.state, count(*), min(some.created_at), min(some.started_at),
  max(some.completed_at), min(some.seq), min(some.correlation_id)
from some cross join lanes on lanes.lane = some.lane
where some.id not in (select replay_of from some where replay_of is not null) and {scope}
group by some.flow, lanes.queue, lanes.type, some.state
""",
        scope="lanes.queue in (select value from json_each(?))",
    ),
    CODEC,
)
