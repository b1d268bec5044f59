"""Crons, as the specification has them: declared, fired once, paused, resumed, forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from fencepost.errors import InvalidJobError
from fencepost.store.interface.records.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronView,
    Fired,
    FireReply,
    NotDue,
)
from lab.model.queue import Workings


class Crontab(Workings):
    """What a store does with crons; when they tick is their owners' business."""

    def declare_crons(self, crons: Sequence[CronDefinition]) -> None:
        for new in crons:
            old = self.world.crons.get(new.name)
            now = CronView(
                name=new.name,
                expression=new.expression,
                tz=new.tz,
                missed=new.missed,
                catch_up=new.catch_up,
                template=new.template,
                next_tick=new.next_tick,
                declared_at=self.now,
                changed_at=self.now,
            )
            self.world.crons[new.name] = now if old is None else self._declared_again(old, now)

    @staticmethod
    def _declared_again(old: CronView, new: CronView) -> CronView:
        """Keep what an operator did and what was fired; and the tick, unless the times differ."""
        has_times = (old.expression, old.tz) == (new.expression, new.tz)
        has_rest = (old.missed, old.catch_up, old.template) == (
            new.missed,
            new.catch_up,
            new.template,
        )
        return replace(
            new,
            is_paused=old.is_paused,
            last_tick=old.last_tick,
            next_tick=old.next_tick if has_times else new.next_tick,
            changed_at=old.changed_at if has_times and has_rest else new.changed_at,
        )

    def fire(self, fires: Sequence[CronFire]) -> list[FireReply]:
        before = self.world.copy()
        try:
            return [self._fire(each) for each in fires]
        except InvalidJobError:
            self.world = before
            raise

    def _fire(self, fire: CronFire) -> FireReply:
        cron = self.world.crons.get(fire.name)
        if cron is None or cron.is_paused or cron.next_tick != fire.expected:
            return NotDue(fire.name)
        if (cron.expression, cron.tz) != (fire.expression, fire.tz):
            return NotDue(fire.name)
        self._check_times(fire.jobs)
        last_tick = fire.last_tick or cron.last_tick
        self.world.crons[fire.name] = replace(cron, last_tick=last_tick, next_tick=fire.next_tick)
        replies = [self._enqueue(job, (), atomic=False) for job in fire.jobs]
        return Fired(fire.name, self.entered(replies))

    def crons(self) -> CronList:
        return CronList(self.now, [cron for _, cron in sorted(self.world.crons.items())])

    def pause_cron(self, name: str) -> bool:
        cron = self.world.crons.get(name)
        if cron is not None:
            self.world.crons[name] = replace(cron, is_paused=True)
        return cron is not None

    def resume_cron(self, name: str, next_tick: datetime | None) -> bool:
        cron = self.world.crons.get(name)
        if cron is not None and cron.is_paused:
            self.world.crons[name] = replace(cron, is_paused=False, next_tick=next_tick)
        return cron is not None

    def forget_cron(self, name: str) -> bool:
        return self.world.crons.pop(name, None) is not None
