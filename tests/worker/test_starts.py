"""A job that a worker holds has started: it holds none for which it has no slot (C41, C42)."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterator
from typing import TypeVar, cast

import pytest
from tests.worker.flaky import FlakyStore
from tests.worker.support import (
    LONG,
    drain,
    ended,
    eventually,
    executor_of,
    working,
    working_in_thread,
)

from fencepost import App, Context, State
from fencepost.clock import SystemClock
from fencepost.core.bounds import START_WITHIN
from fencepost.errors import ConfigurationError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots

T = TypeVar("T")


async def test_a_worker_never_holds_more_jobs_than_it_has_slots(app: App) -> None:
    """C41: however short the jobs before were; what is behind a long one is not running."""
    begun: set[str] = set()
    ahead: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def work(ctx: Context, is_long: bool) -> None:
        begun.add(ctx.job_id)
        running = app.jobs.find(state="running", limit=1_000).jobs
        ahead.append(len({job.id for job in running} - begun))
        if is_long:
            await go_on.wait()

    app.submit_many([work.prepare(False)] * 200)
    app.submit_many([work.prepare(True)] * 10)
    async with working(app, concurrency=3):
        await eventually(lambda: len(begun) == 203)
        await eventually(lambda: app.jobs.count(state="completed") == 200)
        jobs = app.jobs.find(state="running").jobs
        assert [job.attempt for job in jobs] == [1, 1, 1]
        assert {job.attempt for job in app.jobs.find(state="scheduled").jobs} == {0}
        go_on.set()
        await eventually(lambda: len(begun) == 210)
    assert max(ahead) <= 2, "the rest of a claim that fills three slots"


async def test_an_idle_worker_gets_what_a_busy_one_cannot_start(app: App) -> None:
    """C42: after many short jobs too, a worker keeps nothing for which it has no slot."""
    began = 0
    go_on = asyncio.Event()

    @app.task
    async def short() -> None:
        return None

    @app.task
    async def long() -> None:
        nonlocal began
        began += 1
        await go_on.wait()

    short.submit_many([()] * 200)
    async with working(app, concurrency=2):
        await eventually(lambda: app.jobs.count(state="completed") == 200)
        long.submit_many([()] * 4)
        await eventually(lambda: began == 2)
        async with working(app, concurrency=2):
            await eventually(lambda: began == 4)
            go_on.set()


class Blocking:
    """A handler that blocks the loop, and jobs that were claimed together with it."""

    def __init__(self, app: App) -> None:
        self.is_blocked, self.go_on = threading.Event(), threading.Event()
        self.begun: list[int] = []

        @app.task
        async def work(ctx: Context, number: int) -> int:
            self.begun.append(number)
            if number == 0 and not self.is_blocked.is_set():
                self.is_blocked.set()
                assert self.go_on.wait(LONG)
            return ctx.attempt

        self.jobs = work.submit_many(range(3))

    def block(self) -> None:
        """Return when the loop is blocked, and jobs that stand behind have come too late."""
        assert self.is_blocked.wait(LONG)
        time.sleep(2 * START_WITHIN)


@pytest.fixture
def blocking(app: App) -> Iterator[Blocking]:
    blocking = Blocking(app)
    yield blocking
    blocking.go_on.set()


def test_jobs_behind_a_blocked_loop_are_given_back_uncounted(app: App, blocking: Blocking) -> None:
    """C41, C42: they have not begun, so they are neither attempts nor kept from others."""
    with working_in_thread(app, concurrency=3):
        blocking.block()
        blocking.go_on.set()
        assert [job.result(LONG) for job in blocking.jobs] == [1, 1, 1]
    assert sorted(blocking.begun) == [0, 1, 2]
    assert app.session.counters.get("attempt.late") == 2


def test_a_job_cancelled_behind_a_blocked_loop_never_begins(app: App, blocking: Blocking) -> None:
    """S3-10, C42: it was cancelled before its handler began, and so it does not begin."""
    with working_in_thread(app, concurrency=3):
        blocking.block()
        blocking.jobs[1].cancel()
        blocking.go_on.set()
        assert blocking.jobs[2].result(LONG) == 1
    assert sorted(blocking.begun) == [0, 2]
    assert blocking.jobs[1].refresh().state is State.CANCELLED


def test_a_type_paused_behind_a_blocked_loop_does_not_begin(app: App, blocking: Blocking) -> None:
    """S3-19, C42."""
    with working_in_thread(app, concurrency=3):
        blocking.block()
        app.types.pause(blocking.jobs[0].refresh().type)
        blocking.go_on.set()
        assert blocking.jobs[0].result(LONG) == 1
    assert blocking.begun == [0]
    assert {job.refresh().state for job in blocking.jobs[1:]} == {State.SCHEDULED}
    assert {job.refresh().attempt for job in blocking.jobs[1:]} == {0}


def test_a_worker_that_stops_gives_back_what_has_not_begun(app: App, blocking: Blocking) -> None:
    """C23: others can run it while this worker still finishes what it has begun."""
    with working_in_thread(app, concurrency=3) as worker:
        assert blocking.is_blocked.wait(LONG)
        worker.stop()
        blocking.go_on.set()
        assert blocking.jobs[0].result(LONG) == 1
    left = [job.refresh() for job in blocking.jobs[1:]]
    assert {job.state for job in left} <= {State.SCHEDULED, State.COMPLETED}
    assert all(job.attempt == (job.state is State.COMPLETED) for job in left)


async def test_a_job_that_was_lost_before_it_began_does_not_begin(app: App) -> None:
    """S3-10: a heartbeat told that it was cancelled, while another handler had the loop."""
    begun: list[str] = []

    @app.task
    async def work(ctx: Context) -> None:
        begun.append(ctx.job_id)

    work.submit_many([()] * 2)
    claim = app.store.run(app.store.queue.claim(ClaimRequest(worker="w", limit=2)))
    hand = InFlight()
    taken, _ = hand.take(claim.jobs, asked_at=0.0, answered_at=math.inf)
    hand.drop(claim.jobs[0].id, claim.jobs[0].lease.token)
    slots = WorkerSlots(2, hand)
    executor = executor_of(app, slots, hand)
    executor.take(taken)
    assert slots.taken == 2
    await eventually(lambda: slots.taken == 0)
    assert begun == [claim.jobs[1].id]
    await executor.close()


class LateStore(FlakyStore):
    """Its answers reach the loop when it is too late to start a job."""

    async def run_async(self, operation: Operation[T]) -> T:
        result = await super().run_async(operation)
        if operation.name == "claim":
            await asyncio.sleep(1.5 * START_WITHIN)
        return result


async def test_a_worker_whose_loop_is_always_late_gets_on_all_the_same() -> None:
    """Else it would claim and give back the same jobs for ever."""
    store = LateStore(MemoryStore(clock=SystemClock()))
    app = App(store=cast(Store, store))

    @app.task
    async def work() -> int:
        return 1

    jobs = work.submit_many([()] * 2)
    await drain(app, concurrency=2)
    assert [(await ended(job)).attempt for job in jobs] == [1, 1]
    assert app.session.counters.get("attempt.late") >= 2, "every other claim is given back"


def test_nothing_can_be_claimed_ahead(app: App) -> None:
    """The name is kept; what it did would count jobs that never start (C41)."""
    app.worker(prefetch=0)
    with pytest.raises(ConfigurationError, match="prefetch can only be 0"):
        app.worker(prefetch=10)
