"""CronTable of the memory store: one frozen value each, replaced whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.clock import Clock
from fencepost.core.values.instants import from_us
from fencepost.store.interface.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronView,
    Fired,
    FireReply,
    NotDue,
    matching,
)
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.jobs import enqueue as submission
from fencepost.store.memory.jobs.table import JobTable

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


class CronTable:
    """CronTable by name."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._crons: dict[str, CronView] = {}

    def declare(self, crons: Sequence[CronDefinition], now: int) -> None:
        """Write crons down; those whose times are as they were keep their ticks."""
        for each in crons:
            fields = msgspec.structs.asdict(each)
            known = self._crons.get(each.name)
            if known is None:
                at = from_us(now)
                self._put(CronView(**fields, declared_at=at, changed_at=at))
                continue
            if (known.expression, known.tz) == (each.expression, each.tz):
                del fields["next_tick"]
            declared = msgspec.structs.replace(known, **fields)
            changed_at = known.changed_at if declared == known else from_us(now)
            self._put(
                msgspec.structs.replace(declared, declared_at=from_us(now), changed_at=changed_at)
            )

    def fire(self, jobs: JobTable, clock: Clock, fire: CronFire, now: int) -> FireReply:
        """Store the jobs of a cron that stands as expected, and move it on."""
        cron = self._crons.get(fire.name)
        if cron is None or not matching(cron, fire):
            return NotDue(fire.name)
        last_tick = cron.last_tick if fire.last_tick is None else fire.last_tick
        self._change(cron, last_tick=last_tick, next_tick=fire.next_tick)
        stored = submission.accept(jobs, clock, fire.jobs, atomic=False, now=now)
        return Fired(fire.name, stored)

    def list(self, now: datetime) -> CronList:
        return CronList(now, [cron for _, cron in sorted(self._crons.items())])

    def pause(self, name: str) -> bool:
        cron = self._crons.get(name)
        if cron is not None:
            self._change(cron, is_paused=True)
        return cron is not None

    def resume(self, name: str, next_tick: datetime | None) -> bool:
        cron = self._crons.get(name)
        if cron is not None and cron.is_paused:
            self._change(cron, is_paused=False, next_tick=next_tick)
        return cron is not None

    def forget(self, name: str) -> bool:
        cron = self._crons.pop(name, None)
        if cron is not None:
            self._journal.note(lambda: self._crons.__setitem__(name, cron))
        return cron is not None

    def _change(self, cron: CronView, **changes: Any) -> None:
        self._put(msgspec.structs.replace(cron, **changes))

    def _put(self, cron: CronView) -> None:
        before = self._crons.get(cron.name)
        self._crons[cron.name] = cron
        if before is None:
            self._journal.note(lambda: self._crons.pop(cron.name))
        else:
            self._journal.note(lambda: self._crons.__setitem__(cron.name, before))


def declare(world: MemoryWorld, crons: Sequence[CronDefinition]) -> None:
    """Write crons down."""
    world.crons.declare(crons, world.now)


def fire(world: MemoryWorld, fires: Sequence[CronFire]) -> list[FireReply]:
    """Store the jobs of crons that stand as expected."""
    now = world.now
    return [world.crons.fire(world.jobs, world.clock, each, now) for each in fires]


def crons(world: MemoryWorld) -> CronList:
    """Return all crons, by name."""
    return world.crons.list(world.clock.now())


def pause(world: MemoryWorld, name: str) -> bool:
    """Fire no more ticks of a cron."""
    return world.crons.pause(name)


def resume(world: MemoryWorld, name: str, next_tick: datetime | None) -> bool:
    """Go on with a paused cron."""
    return world.crons.resume(name, next_tick)


def forget(world: MemoryWorld, name: str) -> bool:
    """Delete a cron."""
    return world.crons.forget(name)
