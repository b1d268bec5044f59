"""Crons: declared by apps, fired by whoever comes first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencepost.core.values.instants import from_us, from_us_or_none, to_us
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
from fencepost.store.sqlite.flows.enqueue import enqueue_at
from fencepost.store.sqlite.jobs.catalog import Env

DECLARE = """
insert into crons(
  name, expression, tz, missed, catch_up, template, next_tick, declared_at, changed_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict(name) do update
set expression = excluded.expression, tz = excluded.tz, missed = excluded.missed,
    catch_up = excluded.catch_up, template = excluded.template,
    declared_at = excluded.declared_at,
    next_tick = case when (crons.expression, crons.tz) = (excluded.expression, excluded.tz)
      then crons.next_tick else excluded.next_tick end,
    changed_at = case
      when (crons.expression, crons.tz, crons.missed, crons.catch_up, crons.template)
        = (excluded.expression, excluded.tz, excluded.missed, excluded.catch_up, excluded.template)
      then crons.changed_at else excluded.changed_at end
"""
# The whole of the guard: whoever comes second finds another tick.
ADVANCE = """
update crons set last_tick = coalesce(?, last_tick), next_tick = ?
where name = ? and next_tick = ? and is_paused = 0 and expression = ? and tz = ?
returning 1
"""
CRONS = """
select name, expression, tz, missed, catch_up, template, is_paused, last_tick, next_tick,
       declared_at, changed_at
from crons order by name
"""
PAUSE = "update crons set is_paused = 1 where name = ? returning 1"
RESUME = """
update crons
set is_paused = 0, next_tick = case when is_paused then ? else next_tick end
where name = ? returning 1
"""
FORGET = "delete from crons where name = ? returning 1"


def declare(env: Env, crons: Sequence[CronDefinition]) -> Plan[None]:
    """Write crons down; those whose times are as they were keep their ticks."""
    now = env.clock.now_us()
    rows = [
        (
            each.name,
            each.expression,
            each.tz,
            each.missed,
            each.catch_up,
            encode_template(each.template),
            _us(each.next_tick),
            now,
            now,
        )
        for each in crons
    ]
    yield Statement(DECLARE, rows, many=True)


def fire(env: Env, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
    """Store the jobs of each cron that stands as expected, and move it on."""
    replies: list[FireReply] = []
    for each in fires:
        params = (
            _us(each.last_tick),
            _us(each.next_tick),
            each.name,
            to_us(each.expected),
            each.expression,
            each.tz,
        )
        if (yield Statement(ADVANCE, params)):
            now = env.clock.now_us()
            jobs = yield from enqueue_at(env, each.jobs, atomic=False, now=now)
            replies.append(Fired(each.name, jobs))
        else:
            replies.append(NotDue(each.name))
    return replies


def crons(env: Env) -> Plan[CronList]:
    """Return all crons by name, and the time."""
    rows = yield Statement(CRONS)
    return CronList(from_us(env.clock.now_us()), [_view(row) for row in rows])


def pause(env: Env, name: str) -> Plan[bool]:
    """Fire no more ticks of a cron."""
    return bool((yield Statement(PAUSE, (name,))))


def resume(env: Env, name: str, next_tick: datetime | None) -> Plan[bool]:
    """Go on with a paused cron."""
    return bool((yield Statement(RESUME, (_us(next_tick), name))))


def forget(env: Env, name: str) -> Plan[bool]:
    """Delete a cron."""
    return bool((yield Statement(FORGET, (name,))))


def _view(row: Row) -> CronView:
    name, expression, tz, missed, catch_up, template, is_paused, *times = row
    last_tick, next_tick, declared_at, changed_at = map(from_us_or_none, times)
    return CronView(
        name=name,
        expression=expression,
        tz=tz,
        missed=missed,
        catch_up=catch_up,
        template=decode_template(template),
        is_paused=bool(is_paused),
        last_tick=last_tick,
        next_tick=next_tick,
        declared_at=declared_at,
        changed_at=changed_at,
    )


def _us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)
