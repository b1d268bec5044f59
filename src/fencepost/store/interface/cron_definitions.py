"""From a cron as an app has it to what a store is asked about it, and back."""

from __future__ import annotations

from datetime import datetime

from fencepost.core.cron.cron import Cron, Due
from fencepost.store.interface.crons import CronDefinition, CronFire, CronView


def definition_of(cron: Cron, now: datetime) -> CronDefinition:
    """Return *cron* as it is declared at *now*."""
    return CronDefinition(
        name=cron.name,
        expression=cron.schedule.expression,
        tz=cron.schedule.tz,
        missed=cron.missed,
        catch_up=cron.catch_up,
        template=cron.template,
        next_tick=cron.schedule.next_after(now),
    )


def view_of(cron: Cron, now: datetime) -> CronView:
    """Return *cron* as it would stand in a store that does not know it yet."""
    return CronView(
        name=cron.name,
        expression=cron.schedule.expression,
        tz=cron.schedule.tz,
        missed=cron.missed,
        catch_up=cron.catch_up,
        template=cron.template,
        next_tick=cron.schedule.next_after(now),
    )


def fire_of(cron: Cron, expected: datetime, due: Due) -> CronFire:
    """Return how what is *due* of *cron* is fired, if *expected* is still its next tick."""
    return CronFire(
        name=cron.name,
        expression=cron.schedule.expression,
        tz=cron.schedule.tz,
        expected=expected,
        jobs=tuple(cron.job(tick) for tick in due.ticks),
        last_tick=due.ticks[-1] if due.ticks else None,
        next_tick=due.next_tick,
    )


def has_same_times(cron: Cron, row: CronView) -> bool:
    """Tell whether *cron* ticks as the store says."""
    return (cron.schedule.expression, cron.schedule.tz) == (row.expression, row.tz)
