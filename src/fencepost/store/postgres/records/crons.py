"""Crons: declared by apps, fired by whoever comes first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencepost.core.job.job import NewJob
from fencepost.store.interface.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronView,
    Fired,
    FireReply,
    NotDue,
    decode_template,
    encode_template,
)
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.enqueue import accept
from fencepost.store.postgres.jobs.rows import utc
from fencepost.store.sql.texts import encode_json

# In the order of names, as everywhere: two that declare the same crons must not deadlock.
DECLARE = """
with given as (select coalesce(%s::timestamptz, clock_timestamp()) as now)
insert into fencepost.cron as known(
  name, expression, tz, missed, catch_up, template, next_tick, declared_at, changed_at)
select x.name, x.expression, x.tz, x.missed, x.catch_up, x.template, x.next_tick, now, now
from given, json_to_recordset(%s) as x(
  name text, expression text, tz text, missed text, catch_up integer, template text,
  next_tick timestamptz)
order by x.name collate "C"
on conflict (name) do update
set expression = excluded.expression, tz = excluded.tz, missed = excluded.missed,
    catch_up = excluded.catch_up, template = excluded.template,
    declared_at = excluded.declared_at,
    next_tick = case when (known.expression, known.tz) = (excluded.expression, excluded.tz)
      then known.next_tick else excluded.next_tick end,
    changed_at = case
      when (known.expression, known.tz, known.missed, known.catch_up, known.template)
        = (excluded.expression, excluded.tz, excluded.missed, excluded.catch_up, excluded.template)
      then known.changed_at else excluded.changed_at end
"""
# The whole of the guard: whoever comes second waits for the row, and finds another tick in it.
ADVANCE = """
update fencepost.cron
set last_tick = coalesce(%s::timestamptz, last_tick), next_tick = %s::timestamptz
where name = %s and next_tick = %s::timestamptz and not is_paused and expression = %s and tz = %s
returning 1
"""
CRONS = """
select given.now, name, expression, tz, missed, catch_up, template, is_paused, last_tick, next_tick,
  declared_at, changed_at
from (select coalesce(%s::timestamptz, clock_timestamp()) as now) as given
left join fencepost.cron on true order by name collate "C"
"""
PAUSE = "update fencepost.cron set is_paused = true where name = %s returning 1"
RESUME = """
update fencepost.cron
set is_paused = false, next_tick = case when is_paused then %s::timestamptz else next_tick end
where name = %s returning 1
"""
FORGET = "delete from fencepost.cron where name = %s returning 1"


def declare(env: Env, crons: Sequence[CronDefinition]) -> Plan[None]:
    """Write crons down; those whose times are as they were keep their ticks."""
    given = [
        {
            "name": each.name,
            "expression": each.expression,
            "tz": each.tz,
            "missed": each.missed,
            "catch_up": each.catch_up,
            "template": encode_template(each.template),
            "next_tick": each.next_tick,
        }
        for each in {each.name: each for each in crons}.values()
    ]
    yield Statement(DECLARE, (env.now, encode_json(given)), alone=True)


def fire(env: Env, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
    """Store the jobs of each cron that stands as expected, and move it on."""
    yield from env.catalog.number([job for each in fires for job in each.jobs])
    advanced: dict[int, tuple[NewJob, ...]] = {}
    # Rows are locked in the order of names, so that two that fire several never deadlock.
    for index, each in sorted(enumerate(fires), key=lambda item: item[1].name):
        params = (
            each.last_tick,
            each.next_tick,
            each.name,
            each.expected,
            each.expression,
            each.tz,
        )
        if (yield Statement(ADVANCE, params)):
            advanced[index] = each.jobs
    replies: list[FireReply] = []
    for index, each in enumerate(fires):
        if index in advanced:
            jobs = yield from accept(env, each.jobs, atomic=False)
            replies.append(Fired(each.name, jobs))
        else:
            replies.append(NotDue(each.name))
    return replies


def crons(env: Env) -> Plan[CronList]:
    """Return all crons by name, and the server's time."""
    rows = yield Statement(CRONS, (env.now,), alone=True)
    return CronList(utc(rows[0][0]), [_view(row[1:]) for row in rows if row[1] is not None])


def pause(env: Env, name: str) -> Plan[bool]:
    """Fire no more ticks of a cron."""
    return bool((yield Statement(PAUSE, (name,), alone=True)))


def resume(env: Env, name: str, next_tick: datetime | None) -> Plan[bool]:
    """Go on with a paused cron."""
    return bool((yield Statement(RESUME, (next_tick, name), alone=True)))


def forget(env: Env, name: str) -> Plan[bool]:
    """Delete a cron."""
    return bool((yield Statement(FORGET, (name,), alone=True)))


def _view(row: Row) -> CronView:
    name, expression, tz, missed, catch_up, template, is_paused, *times = row
    last_tick, next_tick, declared_at, changed_at = (
        None if time is None else utc(time) for time in times
    )
    return CronView(
        name=name,
        expression=expression,
        tz=tz,
        missed=missed,
        catch_up=catch_up,
        template=decode_template(template),
        is_paused=is_paused,
        last_tick=last_tick,
        next_tick=next_tick,
        declared_at=declared_at,
        changed_at=changed_at,
    )
