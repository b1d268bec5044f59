"""Crons: declared by apps, fired by the first process that comes. Plans over an engine's SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, NamedTuple

from fencepost.core.job.job import NewJob
from fencepost.store.interface.records.crons import (
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
from fencepost.store.sql.codec import Codec, E, Enqueue, SqlEnv, encode_json

DECLARED_BEFORE = """
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
"""What a declaration changes in a cron that is known: its next tick only with its schedule."""


class CronSql(NamedTuple):
    """Statements about crons, with their parameters."""

    declare: str
    """now, definitions as a JSON array"""
    advance: str
    """last tick or None, next tick, name, expected next tick, expression, time zone; returns a row
    if the cron stands as expected, which is the whole guard against firing a tick twice"""
    crons: str
    """now; returns one row a cron, or one without a name, each after the time"""
    pause: str
    """name"""
    resume: str
    """next tick, name"""
    forget: str
    """name"""


class CronPlans(NamedTuple, Generic[E]):
    sql: CronSql
    codec: Codec
    enqueue: Enqueue[E]
    prepare: Callable[[E, Sequence[NewJob]], Plan[object]] | None = None
    """What an engine does for new jobs before it locks a cron."""

    def declare(self, env: E, crons: Sequence[CronDefinition]) -> Plan[None]:
        """Write crons down; those whose times are as they were keep their ticks."""
        given = [
            {
                "name": each.name,
                "expression": each.expression,
                "tz": each.tz,
                "missed": each.missed,
                "catch_up": each.catch_up,
                "template": encode_template(each.template),
                "next_tick": self.codec.encode_time_or_none(each.next_tick),
            }
            for each in {each.name: each for each in crons}.values()
        ]
        yield Statement(self.sql.declare, (env.now, encode_json(given)), alone=True)

    def fire(self, env: E, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
        """Store the jobs of each cron that stands as expected, and move it on."""
        if self.prepare is not None:
            yield from self.prepare(env, [job for each in fires for job in each.jobs])
        advanced: set[int] = set()
        # Rows are locked in the order of names, so that two that fire several never deadlock.
        for index, each in sorted(enumerate(fires), key=lambda item: item[1].name):
            params = (
                self.codec.encode_time_or_none(each.last_tick),
                self.codec.encode_time_or_none(each.next_tick),
                each.name,
                self.codec.encode_time(each.expected),
                each.expression,
                each.tz,
            )
            if (yield Statement(self.sql.advance, params)):
                advanced.add(index)
        replies: list[FireReply] = []
        for index, each in enumerate(fires):
            if index in advanced:
                jobs = yield from self.enqueue(env, each.jobs, atomic=False, now=env.now)
                replies.append(Fired(each.name, jobs))
            else:
                replies.append(NotDue(each.name))
        return replies

    def crons(self, env: SqlEnv) -> Plan[CronList]:
        """Return all crons by name, and the store's time."""
        rows = yield Statement(self.sql.crons, (env.now,), alone=True)
        views = [self._view(row[1:]) for row in rows if row[1] is not None]
        return CronList(self.codec.decode_time(rows[0][0]), views)

    def pause(self, env: SqlEnv, name: str) -> Plan[bool]:
        """Fire no more ticks of a cron."""
        return bool((yield Statement(self.sql.pause, (name,), alone=True)))

    def resume(self, env: SqlEnv, name: str, next_tick: datetime | None) -> Plan[bool]:
        """Go on with a paused cron."""
        params = (self.codec.encode_time_or_none(next_tick), name)
        return bool((yield Statement(self.sql.resume, params, alone=True)))

    def forget(self, env: SqlEnv, name: str) -> Plan[bool]:
        """Delete a cron."""
        return bool((yield Statement(self.sql.forget, (name,), alone=True)))

    def _view(self, row: Row) -> CronView:
        name, expression, tz, missed, catch_up, template, is_paused, *times = row
        last_tick, next_tick, declared_at, changed_at = map(self.codec.decode_time_or_none, times)
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
