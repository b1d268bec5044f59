"""Crons in SQLite: the SQL for the plans in ``store/sql/records/crons.py``."""

from __future__ import annotations

from fencepost.store.sql.records.crons import DECLARED_BEFORE, CronPlans, CronSql
from fencepost.store.sqlite.flows.enqueue import enqueue_at
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import CODEC

CRONS: CronPlans[Env] = CronPlans(
    CronSql(
        # `where true` keeps SQLite from reading `on conflict` as the condition of a join.
        declare=f"""
with given(now) as (select ?)
insert into crons as known(
  name, expression, tz, missed, catch_up, template, next_tick, declared_at, changed_at)
select json_extract(value, '$.name'), json_extract(value, '$.expression'),
  json_extract(value, '$.tz'), json_extract(value, '$.missed'), json_extract(value, '$.catch_up'),
  json_extract(value, '$.template'), json_extract(value, '$.next_tick'), now, now
from given, json_each(?) where true
{DECLARED_BEFORE}
""",
        advance="""
update crons set last_tick = coalesce(?, last_tick), next_tick = ?
where name = ? and next_tick = ? and is_paused = 0 and expression = ? and tz = ?
returning 1
""",
        crons="""
select given.now, name, expression, tz, missed, catch_up, template, is_paused, last_tick, next_tick,
  declared_at, changed_at
from (select ? as now) as given left join crons on true order by name
""",
        pause="update crons set is_paused = 1 where name = ? returning 1",
        resume="""
update crons
set is_paused = 0, next_tick = case when is_paused then ? else next_tick end
where name = ? returning 1
""",
        forget="delete from crons where name = ? returning 1",
    ),
    CODEC,
    enqueue_at,
)
