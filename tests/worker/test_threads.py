"""Handlers in threads: stopped when their time is up, and what becomes of those that are not."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.worker.support import LONG, ended, eventually, take_leases_away, working

from fencepost import App, Category, Context, HandlerStopped, Retry, State
from fencepost.core.job.job import AttemptOutcome

GRACE = "fencepost.worker.run.executor.INTERRUPT_GRACE"


async def test_a_thread_past_its_timeout_is_stopped(app: App) -> None:
    """C44, S0-92, S1-42, S4-21: its slot comes back, and what it holds is given up in order."""
    ends: list[tuple[str, str | None]] = []

    @app.task(timeout=0.2, retry=Retry.none())
    def endless(ctx: Context) -> None:
        try:
            while True:
                time.sleep(0.001)
        except HandlerStopped as stopped:
            ends.append((type(stopped).__name__, ctx.cancel_reason))
            raise

    @app.task
    def other() -> str:
        return "ran"

    job, waiting = endless.submit(), other.submit()
    async with working(app, concurrency=1):
        assert await waiting.aio.result(LONG) == "ran", "there is a slot for it"
        found = job.refresh()
    assert ends == [("HandlerStopped", "timeout")]
    assert found.state is State.DEAD_LETTER
    assert found.failure is not None
    assert (found.failure.category, found.failure.code) == (Category.TIMEOUT, "execution_timeout")
    counters = app.session.counters
    assert counters.get("slot.leaked") == counters.get("slot.regained") == 0


async def test_except_exception_does_not_keep_a_thread(app: App) -> None:
    """C44: loops that log whatever went wrong, and go on, are common."""
    rounds = 0

    @app.task(timeout=0.2, retry=Retry.none())
    def stubborn() -> None:
        nonlocal rounds
        while True:
            try:
                time.sleep(0.001)
            except Exception:  # noqa: BLE001 - it is what the test is about
                rounds += 1

    job = stubborn.submit()
    async with working(app, concurrency=1):
        assert (await ended(job)).state is State.DEAD_LETTER
    assert rounds == 0
    assert app.session.counters.get("slot.leaked") == 0


async def test_a_thread_whose_job_is_cancelled_or_lost_is_stopped(sqlite_app: App) -> None:
    """C44, S2-35, S3-9: nothing of it is written, and its slot comes back."""
    app = sqlite_app
    reasons: list[str | None] = []
    running: list[str] = []

    @app.task
    def endless(ctx: Context) -> None:
        running.append(ctx.job_id)
        try:
            while True:
                time.sleep(0.001)
        finally:
            reasons.append(ctx.cancel_reason)

    async with working(app, concurrency=1, lease_ttl=1):
        first = endless.submit()
        await eventually(lambda: running)
        await first.aio.cancel()
        await eventually(lambda: reasons)
        second = endless.submit()
        await eventually(lambda: len(running) == 2)
        take_leases_away(app)
        await eventually(lambda: len(reasons) == 2)
        assert second.refresh().state is State.RUNNING, "in somebody else's hands"
    assert reasons == ["cancelled", "lease_lost"]
    assert first.refresh().state is State.CANCELLED
    assert app.session.counters.get("slot.leaked") == 0


async def test_a_stopped_thread_serves_the_next_job(app: App) -> None:
    """C44: what was meant for one job must not hit the next."""
    threads: set[int] = set()

    @app.task(timeout=0.05, retry=Retry.none())
    def endless() -> None:
        threads.add(threading.get_ident())
        while True:
            time.sleep(0.0005)

    @app.task
    def short(x: int) -> int:
        threads.add(threading.get_ident())
        return sum(range(x))

    async with working(app, concurrency=1):
        for _ in range(5):
            stopped = endless.submit()
            jobs = short.submit_many(range(20))
            sums = [await job.aio.result(LONG) for job in jobs]
            assert sums == [sum(range(x)) for x in range(20)]
            assert (await ended(stopped)).state is State.DEAD_LETTER
    assert len(threads) == 1


async def test_a_handler_that_is_stopped_while_it_writes_leaves_the_store_whole(app: App) -> None:
    """C44: the store finishes what it has begun, whoever asked for it."""

    @app.task
    async def noted(x: int) -> None: ...

    @app.task(timeout=0.1, retry=Retry.none())
    def writer(ctx: Context) -> None:
        for x in range(1_000_000):
            ctx.checkpoint(x)
            noted.submit(x)

    for _ in range(5):
        job = writer.submit()
        async with working(app, concurrency=2):
            assert (await ended(job)).state is State.DEAD_LETTER
            after = noted.submit(-1)
            await after.aio.result(LONG)
    assert app.session.counters.get("slot.leaked") == 0


async def test_a_thread_that_does_not_stop_is_given_up_and_the_others_go_on(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-92: with nobody to replace the process, its slot is gone until it returns."""
    monkeypatch.setattr(GRACE, 0.1)
    go_on = threading.Event()
    seen: list[tuple[bool, str | None]] = []

    @app.task(timeout=0.1, retry=Retry.none())
    def stuck(ctx: Context) -> str:
        try:
            go_on.wait(LONG)  # in C: nothing reaches it there
        finally:
            seen.append((ctx.cancelled, ctx.cancel_reason))
        return "too late"

    @app.task
    async def other() -> str:
        return "ran"

    counters = app.session.counters
    job = stuck.submit()
    async with working(app, concurrency=1):
        assert (await ended(job)).state is State.DEAD_LETTER
        assert (counters.get("slot.leaked"), counters.get("slot.regained")) == (1, 0)
        waiting = other.submit()
        await asyncio.sleep(0.05)
        assert waiting.refresh().state is State.SCHEDULED, "there is no slot to run it"
        go_on.set()
        assert await waiting.aio.result(LONG) == "ran"
    assert (counters.get("slot.leaked"), counters.get("slot.regained")) == (1, 1)
    assert seen == [(True, "timeout")]
    [record] = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "slot.leaked"
    ]
    assert vars(record)["fencepost_fields"]["id"] == job.id
    assert job.refresh().state is State.DEAD_LETTER


async def test_one_that_can_be_replaced_ends_once_its_other_jobs_are_done(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C44, S0-92: it claims no more, whatever grace says lets the others finish, and says why."""
    monkeypatch.setattr(GRACE, 0.1)
    go_on, finish = threading.Event(), asyncio.Event()
    started: list[int] = []

    @app.task(timeout=0.1, retry=Retry.none())
    def stuck() -> None:
        go_on.wait(LONG)

    @app.task
    async def other(x: int) -> int:
        started.append(x)
        await finish.wait()
        return x

    job, beside = stuck.submit(), other.submit(1)
    worker = app.worker(concurrency=2, grace=0)
    worker.is_replaceable = True
    running = asyncio.create_task(worker.aio.run())
    try:
        assert (await ended(job)).state is State.DEAD_LETTER
        await eventually(lambda: worker.is_retiring)
        late = other.submit(2)
        await asyncio.sleep(0.1)
        assert not running.done()
        finish.set()
        await asyncio.wait_for(running, LONG)
    finally:
        go_on.set()
    assert worker.is_retiring
    assert beside.result(0) == 1
    assert late.refresh().state is State.SCHEDULED, "for the process that comes"
    assert started == [1]
    [record] = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "worker.retiring"
    ]
    assert vars(record)["fencepost_fields"]["id"] == job.id


async def test_a_stop_goes_before_a_replacement(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told to stop is not started again; its grace begins with the stop."""
    monkeypatch.setattr(GRACE, 0.1)
    go_on = threading.Event()
    began = asyncio.Event()

    @app.task(timeout=0.1, retry=Retry.none())
    def stuck() -> None:
        go_on.wait(LONG)

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(10 * LONG)

    beside = long.submit()
    worker = app.worker(concurrency=2, grace=0.1)
    worker.is_replaceable = True
    running = asyncio.create_task(worker.aio.run())
    try:
        await began.wait()
        stuck.submit()
        await eventually(lambda: worker.is_retiring)
        worker.stop()
        await asyncio.wait_for(running, LONG)
    finally:
        go_on.set()
    assert not worker.is_retiring
    assert beside.refresh().state is State.SCHEDULED
    assert [each.outcome for each in beside.attempts()] == [AttemptOutcome.RELEASED]


async def test_at_a_shutdown_a_thread_is_asked_first_and_stopped_then(app: App) -> None:
    """C23: a worker that has ended leaves no handler behind that can be stopped."""
    started = threading.Event()
    ends: list[str | None] = []

    @app.task
    def endless(ctx: Context) -> None:
        started.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            ends.append(ctx.cancel_reason)

    job = endless.submit()
    worker = app.worker(grace=0.1)
    running = asyncio.create_task(worker.aio.run())
    await asyncio.to_thread(started.wait, LONG)
    worker.stop()
    await asyncio.wait_for(running, LONG)
    assert ends == ["shutdown"]
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)
