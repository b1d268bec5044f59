"""The store going away never ends a worker, and never makes it lie about what it did."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.worker.flaky import FlakyStore, Times, everything, nothing, only
from tests.worker.flaky import app as app
from tests.worker.flaky import store as store
from tests.worker.support import (
    LONG,
    drain,
    eventually,
    eventually_sync,
    working,
    working_in_thread,
)

from fencepost import App, Context, State
from fencepost.core.bounds import CLAIM_MAX, UNSETTLED_MAX
from fencepost.errors import StoreUnavailableError
from fencepost.platform.locks import wait_for_lock
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.usefixtures("never_late")


@contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """Hold the lock that every writer of a SQLite store needs, as another process would."""
    with open(f"{path}-lock", "r+b") as lock:
        wait_for_lock(lock.fileno())
        yield


async def test_a_worker_survives_an_outage_and_finishes_everything(
    app: App, store: FlakyStore
) -> None:
    """S0-55, S0-56: nothing has to be restarted, and nothing is done twice."""
    runs: list[int] = []

    @app.task
    async def work(x: int) -> int:
        runs.append(x)
        await asyncio.sleep(0.01)
        return x

    jobs = work.submit_many(range(60))
    async with working(app, concurrency=4):
        await eventually(lambda: len(runs) >= 10)
        store.is_away = everything
        await eventually(
            lambda: store.count(QueueFacet.claim) and store.count(QueueFacet.settle),
            "the outage felt",
        )
        await asyncio.sleep(0.3)
        store.is_away = nothing
        for number, job in enumerate(jobs):
            assert await job.aio.result(LONG) == number
    assert sorted(runs) == list(range(60))
    assert app.session.counters.get("store.unavailable", during="claim") >= 1
    assert app.session.counters.get("store.unavailable", during="settle") >= 1


async def test_a_worker_that_cannot_record_outcomes_stops_claiming(
    app: App, store: FlakyStore
) -> None:
    """S0-30: what has ended and is not recorded would run again, were the process to die."""
    runs: list[int] = []

    @app.task
    async def work(x: int) -> int:
        runs.append(x)
        return x

    count = 3 * (UNSETTLED_MAX + CLAIM_MAX)
    jobs = work.submit_many(range(count))
    store.is_away = only(QueueFacet.settle)
    async with working(app, concurrency=50):
        # On a busy machine, a job that came late and cannot be given back stops it sooner.
        late = partial(app.session.counters.get, "attempt.late")
        await eventually(lambda: len(runs) > UNSETTLED_MAX or late() > 0, "too much unrecorded")
        await eventually(lambda: store.count(QueueFacet.settle) >= 4, "patience")
        assert len(runs) <= UNSETTLED_MAX + CLAIM_MAX + 50
        store.is_away = nothing
        assert await jobs[-1].aio.result(LONG) == count - 1
        await eventually(lambda: len(runs) == count)
    assert sorted(runs) == list(range(count))


async def test_a_worker_may_start_before_its_store_is_there(app: App, store: FlakyStore) -> None:
    """S0-55."""

    @app.task
    async def work() -> str:
        return "done"

    job = work.submit()
    store.is_away = everything
    async with working(app):
        await eventually(lambda: store.count(SettingsFacet.limit_types))
        store.is_away = nothing
        assert await job.aio.result(LONG) == "done"


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_settlement_of_unknown_outcome_is_repeated_and_not_doubled(
    app: App, store: FlakyStore, lost: int
) -> None:
    """S0-57, S0-41: the same token tells the store that it has heard this before."""
    runs = []

    @app.task
    async def work() -> str:
        runs.append(1)
        return "once"

    store.loses_reply = Times(QueueFacet.settle, lost)
    job = work.submit()
    await drain(app)
    assert (job.result(0), runs) == ("once", [1])
    assert job.refresh().attempt == 1
    counters = app.session.counters
    # Seen from inside the store's wrapper: written once, repeated for each reply that was lost.
    assert counters.get("settle.repeated") == 1
    assert counters.get("stale.ack") == 0
    assert counters.get("store.unavailable", during="settle") == lost


async def test_a_failure_of_unknown_outcome_is_counted_once(app: App, store: FlakyStore) -> None:
    """S0-22, S0-66: a repeated nack does not use up another attempt."""
    attempts = []

    @app.task
    async def flaky(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError
        return "third time"

    store.loses_reply = Times(QueueFacet.settle, 2)
    job = flaky.submit()
    async with working(app):
        assert await job.aio.result(LONG) == "third time"
    assert attempts == [1, 2, 3]
    assert job.refresh().attempt == 3


async def test_jobs_of_a_claim_whose_reply_was_lost_are_released(
    app: App, store: FlakyStore
) -> None:
    """C41, S0-57, S4-1: the worker never heard of that lease, so nothing has started under it."""

    @app.task
    async def work(ctx: Context) -> int:
        return ctx.attempt

    store.loses_reply = Times(QueueFacet.claim, 1)
    jobs = work.submit_many([()] * 3)
    async with working(app):
        assert [await job.aio.result(LONG / 2) for job in jobs] == [1, 1, 1]


async def test_what_runs_is_not_released_after_a_claim_has_failed(
    app: App, store: FlakyStore
) -> None:
    """C41: only what the worker has never heard of."""
    go_on = asyncio.Event()

    @app.task
    async def wait(ctx: Context) -> int:
        await go_on.wait()
        return ctx.attempt

    first = wait.submit()
    async with working(app):
        await eventually(lambda: first.refresh().state is State.RUNNING)
        store.loses_reply = Times(QueueFacet.claim, 1)
        second = wait.submit()
        await eventually(lambda: second.refresh().state is State.RUNNING and second.attempts()[1:])
        go_on.set()
        assert [await job.aio.result(LONG) for job in (first, second)] == [1, 1]
    assert len(first.attempts()) == 1


async def test_a_handler_is_interrupted_when_its_lease_must_have_run_out(
    app: App, store: FlakyStore
) -> None:
    """S2-32: no answer for a whole TTL means that somebody else may have the job."""
    started = asyncio.Event()
    reasons = []

    @app.task
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            reasons.append(ctx.cancel_reason)

    long.submit()
    async with working(app, lease_ttl=1):
        await started.wait()
        store.is_away = everything
        since = time.monotonic()
        await eventually(lambda: reasons)
        held_for = time.monotonic() - since
        store.is_away = nothing
    assert reasons == ["lease_lost"]
    assert 0.5 < held_for < 5.0


async def test_an_outage_shorter_than_the_lease_interrupts_nobody(
    app: App, store: FlakyStore
) -> None:
    """S0-55, S2-32: heartbeats are tried again until one gets through."""
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> str:
        started.set()
        await go_on.wait()
        return "undisturbed"

    job = long.submit()
    async with working(app, lease_ttl=3):
        await started.wait()
        store.is_away = only(QueueFacet.heartbeat)
        await eventually(lambda: store.count(QueueFacet.heartbeat) >= 2)
        store.is_away = nothing
        beats = app.session.counters.get("store.operation", operation="heartbeat")
        await eventually(
            lambda: app.session.counters.get("store.operation", operation="heartbeat") > beats
        )
        go_on.set()
        assert await job.aio.result(LONG) == "undisturbed"
    assert job.refresh().attempt == 1


async def test_a_stop_does_not_wait_forever_for_a_store_that_is_away(
    app: App, store: FlakyStore
) -> None:
    """C23: the leases then run out by themselves."""
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    job = long.submit()
    worker = app.worker(grace=0.1, lease_ttl=1)
    running = asyncio.create_task(worker.aio.run())
    await started.wait()
    store.is_away = everything
    worker.stop()
    await asyncio.wait_for(running, LONG)
    store.is_away = nothing
    assert job.refresh().state is State.RUNNING


def test_a_worker_outlasts_a_writer_that_holds_the_lock(tmp_path: Path) -> None:
    """S0-55: the real thing, with a store that loses patience after 0.2 s."""
    path = tmp_path / "jobs.db"
    store = SqliteStore(str(path), patience=0.2)
    with App(f"sqlite:///{path}", store=store) as app:

        @app.task
        def work(x: int) -> int:
            return x

        jobs = work.submit_many(range(20))
        with working_in_thread(app, concurrency=2):
            jobs[0].result(LONG)
            with lock_of(path):
                eventually_sync(
                    lambda: app.session.counters.get("store.unavailable") >= 2, "the lock felt"
                )
                with pytest.raises(StoreUnavailableError):
                    work.submit(99)
            assert [job.result(LONG) for job in jobs] == list(range(20))
        assert app.jobs.count() == 20


async def test_the_services_of_a_worker_outlive_their_own_defects(
    app: App, store: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-1: an error nobody thought of must not leave jobs claimed, beating and never settled."""
    fails = threading.Event()
    settle = store.inner.queue.settle

    def broken(settlements: object) -> object:
        if not fails.is_set():
            fails.set()
            raise RuntimeError("a defect")
        return settle(settlements)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(store.inner.queue, "settle", broken)

    @app.task
    async def work() -> str:
        return "settled"

    job = work.submit()
    async with working(app, lease_ttl=1):
        assert await job.aio.result(LONG) == "settled"
    assert app.session.counters.get("settle.failed") == 1
    assert job.refresh().attempt == 2
