"""The whole store in SQLite: SQL for ``store/sql/records/overview.py``, and ended jobs."""

from __future__ import annotations

import json
from datetime import datetime

from fencepost.core.values.times import to_us
from fencepost.store.interface.records.overview import EndedPage
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import SCHEDULED
from fencepost.store.sql.paging import unpack
from fencepost.store.sql.records.overview import OverviewPlans, OverviewSql, ended_page, ended_sql
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.read import SETTINGS
from fencepost.store.sqlite.jobs.rows import CODEC

ENDED = """
select jobs.seq, jobs.completed_at, jobs.id, lanes.type, lanes.queue, jobs.state, jobs.attempt,
  jobs.created_at, jobs.scheduled_at, jobs.started_at
from jobs indexed by jobs_ended cross join lanes on lanes.lane = jobs.lane
where completed_at is not null and completed_at >= ? {place}
order by completed_at {way}, seq {way} limit ?
"""

OVERVIEW = OverviewPlans(
    OverviewSql(
        # A lane that was made for a job which was then not stored has no counters.
        counts="""
select lanes.queue, lanes.type, counters.state, counters.count
from lanes join counters on counters.lane = lanes.lane
where {condition}
""",
        # One look into the index for each lane and priority, however many jobs are claimable.
        oldest=f"""
select queue, min(run_at) from (
  select lanes.queue, (
      select min(run_at) from jobs indexed by jobs_ready
      where state = {SCHEDULED} and lane = lanes.lane and priority = of.priority
    ) as run_at
  from counters join lanes on lanes.lane = counters.lane cross join (
    select column1 as priority from (values (0), (1), (2), (3), (4))
  ) as of
  where counters.state = {SCHEDULED} and counters.count > 0 and {{condition}}
) where run_at is not null group by queue
""",
        among="lanes.{by} in (select value from json_each(?))",
        encode_names=lambda names: json.dumps(list(names)),
    ),
    CODEC,
    SETTINGS,
)


def ended(
    env: Env, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    place: tuple[int, ...] = () if after is None else unpack(after)
    sql = ended_sql(ENDED, "?", newest_first=newest_first, goes_on=bool(place))
    rows = yield Statement(sql, (to_us(since), *place, limit + 1))
    return ended_page(CODEC, rows, limit)
