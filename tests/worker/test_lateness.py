"""What could not begin in time goes back, and nothing that is promised suffers by it (C41, C42)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar, cast

import pytest
from tests.worker.flaky import FlakyStore
from tests.worker.support import LONG

from fencepost import App, BatchJob, Context, Retry
from fencepost.clock import SystemClock
from fencepost.core.bounds import START_WITHIN
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.interruption import Interruptible
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.worker.run.slots import Reach
from fencepost.worker.run.threads import Threads

T = TypeVar("T")

BLOCKED = 1.2 * START_WITHIN


def test_a_claim_brings_what_can_begin_soon() -> None:
    reach = Reach(20)
    assert reach.bound == 20, "until something is known of its handlers"
    reach.began(20, 0.001)
    assert reach.bound == 20
    reach.began(2, START_WITHIN)
    assert reach.bound == 1
    for _ in range(10):
        reach.claimed()
    assert reach.bound == 20, "it rises by and by"
    reach.began(10, START_WITHIN)
    assert reach.bound == 5, "and falls at once"


def test_it_never_falls_below_one_nor_rises_above_the_slots() -> None:
    reach = Reach(3)
    for _ in range(10):
        reach.came_late()
        reach.began(1, 60.0)
    assert reach.bound == 1
    for _ in range(10):
        reach.claimed()
        reach.began(1, 0.0)
    assert reach.bound == 3


def test_after_a_claim_of_which_nothing_began_one_begins_however_late() -> None:
    reach = Reach(3)
    must: list[bool] = []
    for begins in (False, True, False):
        must.append(reach.claimed())
        if begins:
            reach.vain = 0
    assert must == [False, True, False]


def run_blocking(app: App, *, stops_after: int, **options: object) -> None:
    """Run a worker on a loop of its own, in this thread, until so many jobs have begun."""
    worker = app.worker(**options)  # type: ignore[arg-type]
    give_up_at = time.monotonic() + LONG

    def watch() -> None:
        counters = app.session.counters
        while counters.get("job.settled", event="succeed") < stops_after:
            if time.monotonic() > give_up_at:
                break
            time.sleep(0.01)
        worker.stop()

    threading.Thread(target=watch, daemon=True).start()
    worker.run()


@pytest.mark.requirement("C42")
def test_urgent_jobs_are_not_passed_over_while_others_go_back(app: App) -> None:
    """Handlers that block the loop make the rest of each claim late."""
    began: list[str] = []

    @app.task
    async def work(name: str) -> None:
        began.append(name)
        if len(began) == 2:
            urgent = work.using(priority="critical")
            app.submit_many([urgent.prepare(f"urgent {n}") for n in range(5)])
        time.sleep(BLOCKED)

    app.submit_many([work.using(priority="bulk").prepare(f"bulk {n}") for n in range(40)])
    run_blocking(app, stops_after=9)
    assert app.session.counters.get("attempt.late") > 0, "or this shows nothing"
    last = max(place for place, name in enumerate(began) if name.startswith("urgent"))
    # The two before, the five, and what was claimed as they were submitted.
    assert last <= 7, began[:12]
    bulk = [name for name in began if name.startswith("bulk")]
    assert bulk == [f"bulk {n}" for n in range(len(bulk))], "and each goes back to its old place"


def test_no_queue_starves_by_what_goes_back(app: App) -> None:
    began: Counter[str] = Counter()

    @app.task
    async def work(queue: str) -> None:
        began[queue] += 1
        time.sleep(BLOCKED)

    for queue in ("a", "b"):
        app.submit_many([work.using(queue=queue).prepare(queue) for _ in range(40)])
    run_blocking(app, stops_after=16, queues={"a": 1, "b": 1})
    assert app.session.counters.get("attempt.late") > 0, "or this shows nothing"
    assert abs(began["a"] - began["b"]) <= 2, began


def test_what_goes_back_is_not_taken_for_lost(app: App) -> None:
    @app.task
    async def work() -> None:
        time.sleep(BLOCKED)

    app.submit_many([work.prepare() for _ in range(30)])
    run_blocking(app, stops_after=10)
    counters = app.session.counters
    assert counters.get("attempt.late") > 0, "or this shows nothing"
    assert counters.get("lease.lost") == 0
    assert counters.get("attempt.late") < 30, "after the first claim it claims what can begin"


class HangingStore(FlakyStore):
    """A claim hangs that was made after a job had ended, until that job is settled."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.ended = threading.Event()
        self.settled = threading.Event()
        self.is_in_time: bool | None = None

    def run(self, operation: Operation[T]) -> T:
        if operation.is_a(QueueFacet.claim) and self.ended.is_set() and self.is_in_time is None:
            self.is_in_time = self.settled.wait(LONG)
        return super().run(operation)

    async def run_async(self, operation: Operation[T]) -> T:
        if not operation.is_a(QueueFacet.settle):
            return await super().run_async(operation)
        # As a store does whose own thread writes: it goes on while the loop is blocked.
        return await asyncio.to_thread(self._settle, operation)

    def _settle(self, operation: Operation[T]) -> T:
        result = self.inner.run(operation)
        self.settled.set()
        return result


def test_a_claim_that_hangs_does_not_hold_up_what_has_ended() -> None:
    """Else its lease could run out, and it would run again."""
    store = HangingStore(MemoryStore(clock=SystemClock()))
    app = App(store=cast(Store, store))

    @app.task
    async def work() -> None:
        store.ended.set()

    work.submit()
    run_blocking(app, stops_after=1)
    assert store.is_in_time is True


class TearingStore(FlakyStore):
    """Its answers take so long to reach the loop that the loop is closed first."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.torn: list[str] = []
        self.answered = asyncio.Event()

    async def run_async(self, operation: Operation[T]) -> T:
        result = await super().run_async(operation)
        if operation.is_a(QueueFacet.claim, QueueFacet.settle) and operation.name not in self.torn:
            self.torn.append(operation.name)
            if operation.is_a(QueueFacet.settle) or not self.answered.is_set():
                self.answered.set()
                await asyncio.sleep(LONG)
        return result


@pytest.mark.parametrize("name", ["claim", "settle"])
def test_a_loop_that_is_closed_leaves_no_job_running(name: str) -> None:
    """``asyncio.run`` cancels every task, also those that nobody is to cancel."""
    store = TearingStore(MemoryStore(clock=SystemClock()))
    store.torn = ["settle" if name == "claim" else "claim"]
    app = App(store=cast(Store, store))

    @app.task(retry=Retry.none())
    async def work() -> None: ...

    app.submit_many([work.prepare() for _ in range(3)])

    async def main() -> None:
        running = asyncio.ensure_future(app.worker(concurrency=3).aio.run())
        await store.answered.wait()
        assert not running.done()

    asyncio.run(main())
    assert name in store.torn
    assert app.jobs.count(state="running") == 0
    assert app.jobs.count(state="completed" if name == "settle" else "scheduled") == 3


class LateThreads:
    """The first few threads of handlers get their turn late, as if others were computing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.left = count
        self.thread = threading.local()
        call = Threads.call

        def call_late(
            threads: Threads, function: Callable[[], T], stop: Interruptible | None = None
        ) -> asyncio.Future[T]:
            is_late, self.left = self.left > 0, self.left - 1

            def run() -> T:
                self.thread.is_late = is_late
                if is_late:
                    time.sleep(BLOCKED)
                return function()

            return call(threads, run, stop)

        monkeypatch.setattr(Threads, "call", call_late)


@pytest.mark.requirement("C42")
@pytest.mark.parametrize("has_hook", [False, True])
def test_a_handler_whose_thread_gets_its_turn_late_does_not_begin(
    app: App, monkeypatch: pytest.MonkeyPatch, has_hook: bool
) -> None:
    """Also if it computes in a thread, with many others that do."""
    late = LateThreads(monkeypatch, 3)
    began: list[bool] = []

    @app.task(retry=Retry.none())
    def work(ctx: Context) -> None:
        assert ctx.attempt == 1
        began.append(late.thread.is_late)

    if has_hook:

        @app.around
        def inside(ctx: Context, call: Callable[[], None]) -> None:
            began.append(late.thread.is_late)
            call()
            began.pop()

    app.submit_many([work.prepare() for _ in range(3)])
    run_blocking(app, stops_after=3, concurrency=3)
    assert began == [False] * 3
    assert app.session.counters.get("attempt.late") >= 3
    assert app.jobs.count(state="completed") == 3


@pytest.mark.requirement("C42")
def test_a_batch_whose_thread_gets_its_turn_late_does_not_begin(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateThreads(monkeypatch, 1)
    began: list[bool] = []

    @app.task(batch=3, retry=Retry.none())
    def work(jobs: list[BatchJob[int]]) -> None:
        began.extend(late.thread.is_late for _ in jobs)

    app.submit_many([work.prepare(n) for n in range(3)])
    run_blocking(app, stops_after=3, concurrency=3)
    assert began == [False] * 3
    assert app.session.counters.get("attempt.late") >= 3


def test_if_all_threads_are_late_one_begins_all_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LateThreads(monkeypatch, 1_000)

    @app.task
    def work() -> None:
        assert late.thread.is_late

    app.submit_many([work.prepare() for _ in range(3)])
    run_blocking(app, stops_after=3, concurrency=3)
    assert app.jobs.count(state="completed") == 3
