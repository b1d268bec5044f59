"""Crons in PostgreSQL: the SQL for the plans in ``store/sql/records/crons.py``."""

from __future__ import annotations

from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.enqueue import accept
from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.records.crons import DECLARED_BEFORE, CronPlans, CronSql

CRONS: CronPlans[Env] = CronPlans(
    CronSql(
        # In the order of names, as everywhere: two processes that declare the same crons must not
        # deadlock.
        declare=f"""
with given as (select coalesce(%s::timestamptz, clock_timestamp()) as now)
insert into fencepost.crons as known(
  name, expression, tz, missed, catch_up, template, next_tick, declared_at, changed_at)
select x.name, x.expression, x.tz, x.missed, x.catch_up, x.template, x.next_tick, now, now
from given, json_to_recordset(%s) as x(
  name text, expression text, tz text, missed text, catch_up integer, template text,
  next_tick timestamptz)
order by x.name collate "C"
{DECLARED_BEFORE}
""",
        # A second process waits for the row, and then finds another tick in it.
        advance="""
update fencepost.crons
set last_tick = coalesce(%s::timestamptz, last_tick), next_tick = %s::timestamptz
where name = %s and next_tick = %s::timestamptz and not is_paused and expression = %s and tz = %s
returning 1
""",
        crons="""
select given.now, name, expression, tz, missed, catch_up, template, is_paused, last_tick, next_tick,
  declared_at, changed_at
from (select coalesce(%s::timestamptz, clock_timestamp()) as now) as given
left join fencepost.crons on true order by name collate "C"
""",
        pause="update fencepost.crons set is_paused = true where name = %s returning 1",
        resume="""
update fencepost.crons
set is_paused = false, next_tick = case when is_paused then %s::timestamptz else next_tick end
where name = %s returning 1
""",
        forget="delete from fencepost.crons where name = %s returning 1",
    ),
    CODEC,
    # By the server's clock.
    enqueue=lambda env, jobs, *, atomic, now: accept(env, jobs, atomic=atomic),  # noqa: ARG005
    prepare=lambda env, jobs: env.catalog.number(jobs),
)
