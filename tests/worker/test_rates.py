"""What a worker does about rates: it says them, and claims no more than it can start."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

import pytest
from tests.worker.flaky import FlakyStore, Times, only
from tests.worker.support import drain, eventually, working

from fencepost import App, NewJob
from fencepost.clock import SystemClock
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.errors import InvalidRateError
from fencepost.observe.counters import Counters
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock
from fencepost.worker.run.fetcher import Claimer
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.worker import Worker


def rates(app: App) -> dict[str, Rate | None]:
    return {view.name: view.rate for view in app.types.list()}


async def test_jobs_of_a_rated_task_start_no_more_often_than_that(app: App) -> None:
    ran: Counter[str] = Counter()

    @app.task(rate="3/h")
    async def rated() -> None:
        ran["rated"] += 1

    @app.task
    async def free() -> None:
        ran["free"] += 1

    rated.submit_many([()] * 10)
    free.submit_many([()] * 10)
    await drain(app)
    await drain(app)
    assert ran == {"rated": 3, "free": 10}
    assert {job.type for job in app.jobs.find(state="scheduled").jobs} == {"rated"}


async def test_a_worker_says_the_rates_of_all_its_tasks_before_it_claims(app: App) -> None:
    """One without a rate too: what an earlier version had must not outlive it."""
    app.store.run(
        app.store.settings.limit_types(
            {"free": TypeLimits(rate=Rate(1, 60.0)), "other": TypeLimits(rate=Rate(2, 60.0))}
        )
    )

    @app.task(rate="3/m")
    async def rated() -> None: ...

    @app.task
    async def free() -> None: ...

    await drain(app)
    assert rates(app) == {"rated": Rate(3, 60.0), "other": Rate(2, 60.0)}


async def test_a_worker_whose_store_is_away_says_its_rates_when_it_is_back() -> None:
    """And claims nothing before; a reply that was lost is asked for again."""
    store = FlakyStore(MemoryStore(clock=SystemClock()))
    store.is_away = Times(SettingsFacet.limit_types, 3)
    store.loses_reply = Times(SettingsFacet.limit_types, 1)
    asked: list[str] = []
    note = store.run_async

    async def noting(operation: object) -> object:
        asked.append(operation.name)  # type: ignore[attr-defined]  # every operation has one
        return await note(operation)  # type: ignore[arg-type]

    store.run_async = noting  # type: ignore[method-assign, assignment]
    app = App("memory://")

    @app.task(rate="3/m")
    async def rated() -> None: ...

    worker = Worker(cast(Store, store), app.session.tasks)
    await worker.run_async(until_idle=True)
    assert store.count(SettingsFacet.limit_types) == len(store.refused) == 4
    assert "claim" not in asked[: asked.index("limit_types")]
    assert asked.count("limit_types") == 5
    assert asked.index("claim") > len(asked) - asked[::-1].index("limit_types") - 1


async def test_a_worker_that_is_stopped_while_the_store_is_away_stops() -> None:
    store = FlakyStore(MemoryStore(clock=SystemClock()))
    store.is_away = only(SettingsFacet.limit_types)
    worker = Worker(cast(Store, store), {}, grace=1.0)
    running = asyncio.create_task(worker.run_async())
    await eventually(lambda: len(store.refused) >= 2)
    worker.stop()
    await asyncio.wait_for(running, 30.0)


async def test_a_worker_with_a_rated_task_claims_nothing_ahead(app: App) -> None:
    """A burst that was counted when it was claimed would else run when it no longer counts."""
    started = 0
    go_on = asyncio.Event()

    @app.task(rate="1000/h")
    async def rated() -> None:
        nonlocal started
        started += 1
        await go_on.wait()

    rated.submit_many([()] * 20)
    async with working(app, concurrency=2):
        await eventually(lambda: started == 2)
        assert app.jobs.count(state="running") == 2
        go_on.set()
        await eventually(lambda: started == 20)


async def test_a_worker_comes_again_when_the_next_job_can_start() -> None:
    """It waits as long as the claim says, and not for news."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    store.run(store.settings.limit_types({"rated": TypeLimits(rate=Rate(1, 10.0))}))
    store.run(store.queue.enqueue([NewJob(type="rated")] * 2))
    inflight = InFlight()
    claimer = Claimer(
        store,
        inflight,
        Counters(),
        WorkerSlots(5, inflight),
        worker="w",
        types=frozenset({"rated"}),
        queues=None,
        lease_ttl=30.0,
    )
    first = await claimer.claim(5)
    assert first is not None
    assert len(first.held) == 1
    clock.advance(9.75)
    second = await claimer.claim(5)
    assert second is not None
    assert second.held == []
    assert claimer.pause_after(second.claim) == 0.25


def test_a_rate_that_makes_no_sense_is_refused_where_it_is_written(app: App) -> None:
    with pytest.raises(InvalidRateError, match="100/m"):

        @app.task(rate="often")
        async def rated() -> None: ...

    assert app.session.tasks == {}


async def test_a_handler_of_an_event_can_have_a_rate(app: App) -> None:
    @app.event("user.created").on(rate="2/h")
    async def greet() -> None: ...

    for _ in range(3):
        app.event("user.created").send()
    await drain(app)
    assert rates(app)["greet"] == Rate(2, 3600.0)
    assert app.jobs.count(state="completed") == 2
