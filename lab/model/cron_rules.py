"""Rules for crons: declared, fired by the first worker, paused and forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.store.interface.records.crons import CronDefinition, CronFire
from lab.model import choices
from lab.model.choices import INSTANT
from lab.model.graph_rules import Weaving


class Ticking(Weaving):
    """What happens to crons."""

    @rule(
        names=st.lists(choices.cron_names, min_size=1, max_size=2, unique=True),
        times=choices.cron_times,
        missed=st.sampled_from(("latest", "skip")),
        template=choices.new_jobs,
        tick=choices.cron_ticks,
    )
    def declare_crons(
        self,
        names: list[str],
        times: tuple[str, str],
        missed: str,
        template: NewJob,
        tick: float | None,
    ) -> None:
        given: dict[str, Any] = {
            "expression": times[0],
            "tz": times[1],
            "missed": missed,
            "template": template,
            "next_tick": self._tick(tick),
        }
        self.do("declare_crons", [CronDefinition(name=name, **given) for name in names])

    @precondition(lambda self: self.comparison.model.world.crons)
    @rule(
        names=st.lists(choices.cron_names, min_size=1, max_size=3),
        jobs=choices.cron_jobs,
        tick=choices.cron_ticks,
        times=st.one_of(st.none(), st.none(), st.none(), choices.cron_times),
        offset=choices.offsets,
    )
    def fire(
        self,
        names: list[str],
        jobs: tuple[NewJob, ...],
        tick: float | None,
        times: tuple[str, str] | None,
        offset: int,
    ) -> None:
        """Fire crons as they stand, or nearly, in whatever state they are."""
        fires = [self._as_it_stands(name, jobs, tick) for name in names]
        late = max(offset, 0) * INSTANT
        fires = [replace(each, expected=each.expected + late) for each in fires]
        if times is not None:
            fires = [replace(each, expression=times[0], tz=times[1]) for each in fires]
        self.do("fire", fires)

    @rule(name=choices.cron_names, jobs=choices.cron_jobs, is_paused=st.booleans())
    def race_for_a_tick(self, name: str, jobs: tuple[NewJob, ...], is_paused: bool) -> None:
        """Let two come to a tick who have seen the same; it may have been paused meanwhile."""
        template = NewJob(type="report")
        given = CronDefinition(
            name=name, expression="@daily", tz="UTC", template=template, next_tick=self._tick(0.0)
        )
        self.do("forget_cron", name)
        self.do("declare_crons", [given])
        fire = self._as_it_stands(name, jobs, 3600.0)
        if is_paused:
            self.do("pause_cron", name)
        for _ in range(2):
            self.do("fire", [fire])

    def _as_it_stands(self, name: str, jobs: tuple[NewJob, ...], tick: float | None) -> CronFire:
        cron = self.comparison.model.world.crons.get(name)
        expected = cron.next_tick if cron is not None else None
        return CronFire(
            name=name,
            expression="" if cron is None else cron.expression,
            tz="" if cron is None else cron.tz,
            expected=expected or self.comparison.now,
            jobs=jobs,
            last_tick=expected if jobs else None,
            next_tick=self._tick(tick),
        )

    @rule(what=st.sampled_from(("pause_cron", "forget_cron")), name=choices.cron_names)
    def pause_or_forget_cron(self, what: str, name: str) -> None:
        self.do(what, name)

    @rule(name=choices.cron_names, tick=choices.cron_ticks)
    def resume_cron(self, name: str, tick: float | None) -> None:
        self.do("resume_cron", name, self._tick(tick))

    def _tick(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self._from_now(seconds)

    def _from_now(self, seconds: float) -> datetime:
        return self.comparison.now + timedelta(seconds=seconds)
