"""Cancelled and lost jobs: the handler is told at once, and nothing of it is written."""

from __future__ import annotations

import asyncio

import pytest
from tests.worker.support import LONG, drain, eventually, take_leases_away, working

from fencepost import App, Context, JobCancelledError, State, StateConflictError
from fencepost.core.job.job import AttemptOutcome

pytestmark = pytest.mark.usefixtures("never_late")


async def test_cancelling_a_running_job_interrupts_its_handler(app: App) -> None:
    """S3-6, S3-9, S1-84, C20: CANCELLED at once, the handler within a heartbeat."""
    started = asyncio.Event()
    ended = []

    @app.task
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append((ctx.cancelled, ctx.cancel_reason))

    job = long.submit()
    async with working(app, lease_ttl=1):
        await started.wait()
        job.cancel()
        assert job.state is State.CANCELLED
        await eventually(lambda: ended)
        with pytest.raises(JobCancelledError):
            await job.aio.result(1)
    assert ended == [(True, "cancelled")]
    found = job.refresh()
    assert (found.state, found.lease, found.attempt) == (State.CANCELLED, None, 1)
    assert [a.outcome for a in job.attempts()] == [AttemptOutcome.CANCELLED]
    counters = app.session.counters
    assert counters.get("lease.lost", reason="cancelled") == 1
    assert counters.get("attempt.interrupted", reason="cancelled") == 1
    assert counters.get("job.settled") == 0


async def test_a_lost_lease_interrupts_the_handler_and_nothing_is_written(sqlite_app: App) -> None:
    """S0-49, S0-83, S2-9, S2-35: somebody else has the job; we let go of it."""
    started = asyncio.Event()
    ended = []

    @sqlite_app.task
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(ctx.cancel_reason)

    job = long.submit()
    async with working(sqlite_app, lease_ttl=1):
        await started.wait()
        take_leases_away(sqlite_app)
        before = job.refresh()
        await eventually(lambda: ended)
        assert job.refresh() == before
    assert ended == ["lease_lost"]
    counters = sqlite_app.session.counters
    assert counters.get("lease.lost", reason="lease_lost") == 1
    assert counters.get("stale.heartbeat") == 1
    assert counters.get("stale.ack") + counters.get("stale.nack") == 0


async def test_a_handler_that_shrugs_off_its_interruption_writes_nothing(sqlite_app: App) -> None:
    """S2-35: its result is dropped here already, before the store would refuse it."""
    started = asyncio.Event()

    @sqlite_app.task
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "mine"
        raise AssertionError

    job = stubborn.submit()
    async with working(sqlite_app, lease_ttl=1):
        await started.wait()
        take_leases_away(sqlite_app)
        before = job.refresh()
        await eventually(lambda: sqlite_app.session.counters.get("attempt.interrupted"))
        assert job.refresh() == before
    assert sqlite_app.session.counters.get("store.operation", operation="settle") == 0


async def test_a_coroutine_that_never_heeds_is_given_up(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-42: its slot is leaked, like a thread's, and its attempt is over all the same."""
    monkeypatch.setattr("fencepost.worker.run.executor.INTERRUPT_GRACE", 0.1)
    go_on = asyncio.Event()

    @app.task(timeout=0.05)
    async def deaf(ctx: Context) -> str:
        if ctx.attempt > 1:
            return "second"
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "first"

    job = deaf.submit()
    async with working(app, concurrency=2):
        assert await job.aio.result(LONG) == "second"
        assert app.session.counters.get("slot.leaked") == 1
        go_on.set()
        await eventually(lambda: app.session.counters.get("slot.regained"))
    assert job.result(0) == "second"


async def test_a_completed_job_cannot_be_cancelled(app: App) -> None:
    """S0-12, S3-11."""

    @app.task
    async def quick() -> int:
        return 1

    job = quick.submit()
    await drain(app)
    with pytest.raises(StateConflictError) as caught:
        job.cancel()
    assert caught.value.code == "state_conflict"
    assert job.result(0) == 1
