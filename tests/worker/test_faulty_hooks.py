"""Hooks that exit, are cancelled, or hang: an attempt ends all the same, and the worker goes on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.worker.support import LONG, drain, ended, working

from fencepost import App, BatchJob, Context, FailedAttempt, Retry, State

Call = Callable[[], Any]
AsyncCall = Callable[[], Awaitable[Any]]


pytestmark = pytest.mark.usefixtures("never_late")


@pytest.mark.parametrize("who", ["hook", "handler"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_what_would_end_a_process_ends_the_attempt_alone(
    sqlite_app: App, who: str, error: type[BaseException]
) -> None:
    """A ``def`` handler runs in a thread, its hook on the loop, which must not end with it."""

    @sqlite_app.around
    async def awaited(ctx: Context, call: AsyncCall) -> None:
        if ctx.attempt == 1 and who == "hook":
            raise error
        await call()

    @sqlite_app.task
    def work(ctx: Context) -> int:
        if ctx.attempt == 1 and who == "handler":
            raise error
        return ctx.attempt

    job = work.submit()
    async with working(sqlite_app):
        assert await job.aio.result(LONG) == 2
    first = job.attempts()[0].failure
    assert first is not None
    assert error.__name__ in first.message or "cancelled" in first.message


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failure_hook_that_exits_does_not_end_the_worker(
    sqlite_app: App, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(ctx: Context, failed: FailedAttempt) -> None:
        sys.exit(3)

    async def leave_async(ctx: Context, failed: FailedAttempt) -> None:
        leave(ctx, failed)

    sqlite_app.on_failure(leave_async if is_async else leave)

    @sqlite_app.task
    async def work(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("no")
        return ctx.attempt

    job = work.submit()
    async with working(sqlite_app):
        assert await job.aio.result(LONG) == 2
    events = [vars(each).get("fencepost_event") for each in caplog.records]
    assert events.count("hook.failed") == 1


async def test_a_handler_does_not_begin_once_its_attempt_was_stopped(sqlite_app: App) -> None:
    """A ``def`` hook in its thread learns only from ``call()`` that the time is over."""
    ran: list[str] = []

    @sqlite_app.around
    def slow(ctx: Context, call: Call) -> None:
        while not ctx.cancelled:
            time.sleep(0.01)
        try:
            call()
        finally:
            ran.append("hook ends")

    @sqlite_app.task(timeout=0.1, retry=Retry.none())
    async def work() -> None:
        ran.append("handler")

    job = work.submit()
    async with working(sqlite_app):
        assert (await ended(job)).state is State.DEAD_LETTER
    assert ran == ["hook ends"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_waits_on_the_loop_is_stopped_at_the_timeout(
    sqlite_app: App, when: str
) -> None:
    """Also around a ``def`` handler, though no thread of it runs at that moment."""
    stopped: list[str] = []

    @sqlite_app.around
    async def waits(ctx: Context, call: AsyncCall) -> None:
        try:
            if when == "after":
                await call()
            await asyncio.sleep(LONG)
            await call()
        finally:
            stopped.append(when)

    @sqlite_app.task(timeout=0.1, retry=Retry.none())
    def work() -> None: ...

    job = work.submit()
    async with working(sqlite_app) as worker:
        assert (await ended(job)).state is State.DEAD_LETTER
        assert stopped == [when]
        pipeline = worker._pipeline
        assert pipeline is not None
        assert not pipeline.executor.leaked


async def test_the_clean_up_of_a_batch_is_not_cut_off_by_the_timers_of_its_other_jobs(
    sqlite_app: App,
) -> None:
    cleaned: list[int] = []

    @sqlite_app.task(batch=3, retry=Retry.none())
    async def slow(jobs: list[BatchJob[int]]) -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(0.3)
            cleaned.append(len(jobs))

    jobs = [slow.using(timeout=seconds).prepare(1) for seconds in (0.2, 0.3, 0.4)]
    handles = sqlite_app.submit_many(jobs)
    await drain(sqlite_app)
    assert [job.refresh().state for job in handles] == [State.DEAD_LETTER] * 3
    assert cleaned == [3]


async def test_a_clean_up_is_not_cut_off_by_a_timeout_that_comes_meanwhile(sqlite_app: App) -> None:
    """A coroutine is cancelled once; then it has its time to clean up."""
    began, cleaned = asyncio.Event(), asyncio.Event()

    @sqlite_app.task(timeout=0.4)
    async def slow() -> None:
        began.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(0.6)
            cleaned.set()

    job = slow.submit()
    worker = sqlite_app.worker(grace=0.01)
    running = asyncio.create_task(worker.aio.run())
    await began.wait()
    attempt = next(iter(_running(worker).values()))
    attempt.interrupt("shutdown")
    await asyncio.wait_for(cleaned.wait(), LONG)
    worker.stop()
    await asyncio.wait_for(running, LONG)
    assert job.refresh().attempt == 0


def _running(worker: Any) -> dict[str, Any]:
    running: dict[str, Any] = worker._pipeline.slots.running
    return running
