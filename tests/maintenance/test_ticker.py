"""The ticker: every tick once, whoever runs and whatever breaks; and ticks that were missed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.worker.flaky import FlakyStore, everything, nothing, only

from fencepost import NewJob
from fencepost.core.bounds import (
    CRON_DECLARE_INTERVAL,
    CRON_FIRE_MAX,
    CRON_JITTER,
    CRON_LOOK_INTERVAL,
    CRON_SILENCE,
    PAGE_MAX,
)
from fencepost.core.cron import Cron, Missed, parse_schedule
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.maintenance import Ticker
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.store.interface.records.crons import CronsFacet, CronView
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.store.wrappers.observed import observed
from fencepost.testing.clock import FakeClock

START = datetime(2026, 1, 5, 8, 30, tzinfo=UTC)
NINE = START.replace(hour=9, minute=0)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def cron(name: str = "report", expression: str = "0 9 * * *", **fields: Any) -> Cron:
    template = NewJob(type="report", queue=name)
    return Cron(name=name, schedule=parse_schedule(expression), template=template, **fields)


class Rig:
    """A store that may go away, its clock, and the workers that tick on it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.flaky = FlakyStore(inner)
        self.counters = Counters()
        self.clock = cast(FakeClock, inner.clock)

    def ticker(self, *crons: Cron, flaky: bool = False) -> Ticker:
        store = cast(Store, self.flaky) if flaky else self.inner
        given = {each.name: each for each in crons or (cron(),)}
        return Ticker(observed(store, self.counters), given, self.counters)

    def at(self, moment: datetime) -> None:
        self.clock.advance(moment - self.clock.now())

    def row(self, name: str = "report") -> CronView:
        found = {row.name: row for row in self.inner.run(self.inner.crons.list()).crons}
        return found[name]

    def fired(self) -> list[str]:
        """Return name and tick of every job that a cron made, in the order of submission."""
        page = self.inner.run(self.inner.reader.find(JobFilter(), PageRequest(PAGE_MAX)))
        return [str(job.key).removeprefix("cron:") for job in reversed(page.jobs)]


@pytest.fixture(params=["sqlite", "memory"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    clock = FakeClock(START)
    if request.param == "memory":
        store: Store = MemoryStore(clock=clock)
    else:
        store = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    yield Rig(store)
    store.close()


# Ticking.


async def test_the_first_step_declares_and_fires_nothing(rig: Rig) -> None:
    pause = await rig.ticker().step()
    row = rig.row()
    assert (row.expression, row.tz, row.next_tick) == ("0 9 * * *", "UTC", NINE)
    assert rig.fired() == []
    assert pause <= CRON_LOOK_INTERVAL + CRON_JITTER


async def test_a_tick_is_fired_when_it_has_come(rig: Rig) -> None:
    ticker = rig.ticker()
    await ticker.step()
    rig.at(NINE - timedelta(microseconds=1))
    await ticker.step()
    assert rig.fired() == []
    rig.at(NINE)
    await ticker.step()
    await ticker.step()
    assert rig.fired() == ["report:2026-01-05T09:00:00Z"]
    assert (rig.row().last_tick, rig.row().next_tick) == (NINE, NINE + DAY)
    assert rig.counters.get(names.CRON_FIRED, cron="report") == 1
    assert rig.counters.get(names.JOB_ENQUEUED) == 1
    assert rig.counters.get(names.CRON_MISSED) == 0


async def test_of_many_workers_one_fires(rig: Rig) -> None:
    tickers = [rig.ticker() for _ in range(5)]
    for ticker in tickers:
        await ticker.step()
    for day in range(3):
        rig.at(NINE + day * DAY)
        for ticker in tickers:
            await ticker.step()
    assert rig.fired() == [f"report:2026-01-0{day}T09:00:00Z" for day in (5, 6, 7)]


async def test_a_worker_wakes_at_the_tick_and_hardly_later(rig: Rig) -> None:
    ticker = rig.ticker()
    await ticker.step()
    rig.at(NINE - timedelta(seconds=2))
    pause = await ticker.step()
    assert 2.0 <= pause <= 2.0 + CRON_JITTER
    rig.clock.advance(pause)
    await ticker.step()
    assert len(rig.fired()) == 1


async def test_the_jobs_of_a_tick_come_from_the_workers_own_template(rig: Rig) -> None:
    await rig.ticker(cron()).step()
    other = Cron(name="report", schedule=parse_schedule("0 9 * * *"), template=NewJob(type="newer"))
    ticker = rig.ticker(other)
    await ticker.step()
    rig.at(NINE)
    await ticker.step()
    page = rig.inner.run(rig.inner.reader.find(JobFilter(), PageRequest(10)))
    assert [job.type for job in page.jobs] == ["newer"]


async def test_what_another_app_declares_is_not_ours_to_fire(rig: Rig) -> None:
    """Whoever knows it may be gone: then it never fires."""
    await rig.ticker(cron("theirs")).step()
    ours = rig.ticker(cron("ours"))
    await ours.step()
    rig.at(NINE + HOUR)
    await ours.step()
    assert rig.fired() == ["ours:2026-01-05T09:00:00Z"]


async def test_a_worker_started_for_the_first_time_makes_up_for_nothing(rig: Rig) -> None:
    rig.at(NINE + HOUR)
    ticker = rig.ticker(cron(missed=Missed.CATCH_UP))
    await ticker.step()
    await ticker.step()
    assert rig.fired() == []


# Ticks that were missed.


@pytest.mark.parametrize(
    ("missed", "days"), [(Missed.LATEST, [8]), (Missed.SKIP, []), (Missed.CATCH_UP, [6, 7, 8])]
)
async def test_after_three_days_of_downtime_the_policy_decides(
    rig: Rig, missed: Missed, days: list[int]
) -> None:
    first = rig.ticker(cron(missed=missed))
    await first.step()
    rig.at(NINE)
    await first.step()
    rig.at(NINE + 3 * DAY + HOUR)
    second = rig.ticker(cron(missed=missed))
    await second.step()
    await second.step()
    expected = [f"report:2026-01-0{day}T09:00:00Z" for day in [5, *days]]
    assert rig.fired() == expected
    assert rig.row().next_tick == NINE + 4 * DAY
    assert rig.counters.get(names.CRON_MISSED, cron="report") == 1


async def test_more_jobs_than_fit_into_one_firing_are_fired_in_the_next_step(rig: Rig) -> None:
    count = CRON_FIRE_MAX // 2 + 1
    crons = [cron(name, "* * * * *", missed=Missed.CATCH_UP, catch_up=count) for name in ("a", "b")]
    await rig.ticker(*crons).step()
    rig.clock.advance(count * 60.0)
    ticker = rig.ticker(*crons)
    pause = await ticker.step()
    assert rig.inner.run(rig.inner.reader.count(JobFilter())) == count
    assert pause < 1.0
    await ticker.step()
    assert rig.inner.run(rig.inner.reader.count(JobFilter())) == 2 * count


# Pausing and changing.


async def test_what_passes_while_paused_is_not_made_up_for(rig: Rig) -> None:
    ticker = rig.ticker(cron(missed=Missed.CATCH_UP))
    await ticker.step()
    rig.inner.run(rig.inner.crons.pause("report"))
    rig.at(NINE + 2 * DAY + HOUR)
    await ticker.step()
    rig.inner.run(rig.inner.crons.resume("report", NINE + 3 * DAY))
    await ticker.step()
    assert rig.fired() == []
    rig.at(NINE + 3 * DAY)
    await ticker.step()
    assert rig.fired() == ["report:2026-01-08T09:00:00Z"]


async def test_a_paused_cron_does_not_keep_a_worker_busy(rig: Rig) -> None:
    ticker = rig.ticker()
    await ticker.step()
    rig.inner.run(rig.inner.crons.pause("report"))
    rig.at(NINE + HOUR)
    assert await ticker.step() >= CRON_LOOK_INTERVAL


async def test_whoever_is_started_last_is_right_about_the_times(rig: Rig) -> None:
    old, new = rig.ticker(cron()), rig.ticker(cron(expression="0 10 * * *"))
    await old.step()
    await new.step()
    rig.at(NINE + HOUR)
    for ticker in (new, old, new):
        await ticker.step()
    assert rig.fired() == ["report:2026-01-05T10:00:00Z"]


async def test_when_those_with_other_times_are_gone_the_rest_goes_on(rig: Rig) -> None:
    """A worker of the old version was restarted last, and then stopped for good."""
    new, old = rig.ticker(cron(expression="0 10 * * *")), rig.ticker(cron())
    await new.step()
    await old.step()
    rig.clock.advance(CRON_SILENCE - 1)
    await new.step()
    assert rig.row().expression == "0 9 * * *"
    rig.clock.advance(1.0)
    await new.step()
    assert (rig.row().expression, rig.row().next_tick) == ("0 10 * * *", NINE + HOUR)


async def test_while_those_with_other_times_are_there_nobody_takes_turns(rig: Rig) -> None:
    old, new = rig.ticker(cron()), rig.ticker(cron(expression="0 10 * * *"))
    await old.step()
    await new.step()
    for _ in range(40):
        rig.clock.advance(CRON_LOOK_INTERVAL)
        await old.step()
        await new.step()
        assert rig.row().expression == "0 10 * * *"


async def test_a_cron_is_said_to_be_known_now_and_then(rig: Rig) -> None:
    ticker = rig.ticker()
    await ticker.step()
    rig.clock.advance(CRON_DECLARE_INTERVAL - 1)
    await ticker.step()
    assert rig.row().declared_at == START
    rig.clock.advance(1.0)
    await ticker.step()
    assert rig.row().declared_at == rig.clock.now()
    assert rig.row().changed_at == START


async def test_a_forgotten_cron_that_is_known_comes_back(rig: Rig) -> None:
    ticker = rig.ticker()
    await ticker.step()
    rig.inner.run(rig.inner.crons.forget("report"))
    rig.at(NINE + HOUR)
    await ticker.step()
    assert rig.row().next_tick == NINE + DAY
    assert rig.fired() == []


# Trouble.


async def test_a_store_that_is_away_is_outlasted_and_no_tick_is_lost(rig: Rig) -> None:
    ticker = rig.ticker(flaky=True)
    await ticker.attempt()
    for operation in (CronsFacet.list, CronsFacet.fire):
        rig.flaky.is_away = only(operation)
        rig.at(max(NINE, rig.clock.now()))
        assert 0 < await ticker.attempt() <= 1.0
        assert rig.fired() == []
    rig.flaky.is_away = nothing
    await ticker.attempt()
    assert rig.fired() == ["report:2026-01-05T09:00:00Z"]
    assert rig.counters.get(names.CRON_FAILED) == 2


async def test_a_lost_reply_is_not_fired_again(rig: Rig) -> None:
    ticker = rig.ticker(flaky=True)
    await ticker.attempt()
    rig.at(NINE)
    rig.flaky.loses_reply = only(CronsFacet.fire)
    await ticker.attempt()
    rig.flaky.loses_reply = nothing
    await ticker.attempt()
    assert rig.fired() == ["report:2026-01-05T09:00:00Z"]


async def test_a_lost_reply_to_a_declaration_loses_nothing(rig: Rig) -> None:
    ticker = rig.ticker(flaky=True)
    rig.flaky.loses_reply = only(CronsFacet.declare)
    await ticker.attempt()
    rig.flaky.loses_reply = nothing
    rig.at(NINE)
    await ticker.attempt()
    assert rig.fired() == ["report:2026-01-05T09:00:00Z"]


async def test_whoever_dies_between_looking_and_firing_leaves_the_tick_to_others(rig: Rig) -> None:
    dying, other = rig.ticker(flaky=True), rig.ticker()
    await dying.attempt()
    await other.attempt()
    rig.at(NINE)
    rig.flaky.is_away = only(CronsFacet.fire)
    await dying.attempt()
    await other.attempt()
    assert rig.fired() == ["report:2026-01-05T09:00:00Z"]


async def test_a_defect_ends_nothing(rig: Rig) -> None:
    ticker = rig.ticker(flaky=True)
    rig.flaky.error = ValueError
    rig.flaky.is_away = everything
    assert await ticker.attempt() > 0
