"""Priorities that jobs inherit from those that they wait for (S1-37), when one of these changes.

Rows are locked by one statement and looked at by the next: whoever had them before may have changed
another of those that a job waits for, which an earlier snapshot would not see.
"""

from __future__ import annotations

from fencepost.core.job.priority import Priority
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.jobs.catalog import Env

CHILDREN = "array(select child from fencepost.dependency where parent = any (%s::bigint[]))"
LOCK_JOBS = f"""
select 1 from fencepost.job where seq = any ({CHILDREN}) and own_priority is not null
order by seq for no key update
"""
LOCK_WAITING = f"""
select 1 from fencepost.pending where seq = any ({CHILDREN}) and slot is null
order by seq for update
"""
HEIRS = f"""
select pending.seq, pending.lane, least(job.own_priority, (
  select min(lane.priority) from fencepost.dependency
  join fencepost.job as parent on parent.seq = dependency.parent
  join fencepost.lane on lane.lane = parent.lane
  where dependency.child = pending.seq
))
from fencepost.pending join fencepost.job on job.seq = pending.seq
where pending.seq = any ({CHILDREN}) and pending.slot is null and job.own_priority is not null
"""
INHERIT = """
with given as (
  select * from unnest(%s::bigint[], %s::integer[], %s::integer[]) as x(seq, was_lane, lane)
), moved as (
  update fencepost.pending set lane = given.lane from given where pending.seq = given.seq
), described as (
  update fencepost.job set lane = given.lane from given where job.seq = given.seq
), counted as (
  insert into fencepost.tally(lane, state, count)
  select was_lane, 0, -count(*) from given group by was_lane
  union all
  select lane, 0, count(*) from given group by lane
)
select 1
"""


def pass_on(env: Env, seq: int) -> Plan[None]:
    """Have those that wait for a job, and those behind them, be as urgent as it is now."""
    changed = [seq]
    while changed:
        if not (yield Statement(LOCK_JOBS, (changed,))):
            return
        yield Statement(LOCK_WAITING, (changed,))
        rows = yield Statement(HEIRS, (changed,))
        lanes = yield from env.catalog.lanes({lane for _, lane, _ in rows})
        heirs = [row for row in rows if lanes[row[1]].priority != row[2]]
        if not heirs:
            return
        wanted: dict[tuple[int, int], int] = {}
        for _, number, priority in heirs:
            if (number, priority) not in wanted:
                lane, urgent = lanes[number], Priority(priority)
                found = yield from env.catalog.lane_number(lane.queue, lane.type, urgent)
                wanted[number, priority] = found
        changed = [row[0] for row in heirs]
        params = (changed, [row[1] for row in heirs], [wanted[row[1], row[2]] for row in heirs])
        yield Statement(INHERIT, params)
