"""Leases say who owns a job, timeouts how long it may run; neither replaces the other."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from tests.worker.support import (
    LONG,
    drain,
    ended,
    eventually,
    eventually_sync,
    working,
    working_in_thread,
)

from fencepost import App, Category, Context, Retry, State, Timeouts
from fencepost.worker.run.heartbeater import Heartbeater

pytestmark = pytest.mark.usefixtures("never_late")


async def test_an_attempt_past_its_timeout_is_tried_again(app: App) -> None:
    """S1-42, S1-57, S4-28, C19: category TIMEOUT, retried by default."""
    reasons = []

    @app.task(timeout=0.1)
    async def slow(ctx: Context) -> str:
        if ctx.attempt == 2:
            return "quick"
        try:
            await asyncio.sleep(60)
        finally:
            reasons.append((ctx.cancelled, ctx.cancel_reason))
        raise AssertionError

    job = slow.submit()
    async with working(app):
        assert await job.aio.result(10) == "quick"
    first = job.attempts()[0]
    assert first.failure is not None
    assert (first.failure.category, first.failure.code) == (Category.TIMEOUT, "execution_timeout")
    assert "0.1 s" in first.failure.message
    assert reasons == [(True, "timeout")]


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_retry_after_a_timeout_can_be_switched_off(app: App, kind: str) -> None:
    """S1-83, C19: then the job has failed."""

    async def on_loop() -> None:
        await asyncio.sleep(60)

    def in_thread() -> None:
        while True:
            time.sleep(0.001)

    retry = Retry(max_attempts=5, on_timeout=False)
    task = app.task(name="slow", timeout=0.1, retry=retry)(
        on_loop if kind == "async" else in_thread
    )
    job = task.submit()
    async with working(app):
        found = await ended(job)
    assert (found.state, found.attempt) == (State.FAILED, 1)


async def test_a_coroutine_that_ignores_its_timeout_cannot_succeed_any_more(app: App) -> None:
    """S1-42: whatever it returns after it was told to stop comes too late."""

    @app.task(timeout=0.1, retry=Retry.none())
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "I made it"
        raise AssertionError

    job = stubborn.submit()
    async with working(app):
        found = await ended(job)
    assert found.state is State.DEAD_LETTER
    assert found.failure is not None
    assert found.failure.category is Category.TIMEOUT


async def test_a_timeout_ends_an_attempt_whose_heartbeats_succeed(app: App) -> None:
    """S0-89, S0-92, S4-5, S4-10, S4-21: 1 s leases, a 1.2 s timeout."""

    @app.task(timeout=1.2, retry=Retry.none())
    async def slow() -> None:
        await asyncio.sleep(60)

    job = slow.submit()
    async with working(app, lease_ttl=1):
        found = await ended(job)
    assert found.failure is not None
    assert found.failure.category is Category.TIMEOUT
    assert found.started_at is not None
    assert found.completed_at is not None
    assert found.completed_at - found.started_at > timedelta(seconds=1)
    assert app.session.counters.get("lease.recovered") == 0
    assert app.session.counters.get("store.operation", operation="heartbeat") >= 2


async def test_a_job_longer_than_its_lease_keeps_it_by_heartbeats(sqlite_app: App) -> None:
    """S0-79, S0-90, S4-6, S4-11, S4-27: and heartbeats stop with it (S0-82)."""
    runs = []

    @sqlite_app.task
    async def long() -> str:
        runs.append(1)
        await asyncio.sleep(1.6)
        return "done"

    def beats() -> float:
        return sqlite_app.session.counters.get("store.operation", operation="heartbeat")

    job = long.submit()
    async with working(sqlite_app, lease_ttl=1), working(sqlite_app, lease_ttl=1):
        assert await job.aio.result(LONG) == "done"
        count = beats()
        await asyncio.sleep(0.5)
        assert beats() == count
    assert (runs, job.refresh().attempt) == ([1], 1)
    assert 3 <= count <= 8


async def test_without_heartbeats_the_same_job_is_reclaimed(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-23, S0-91, S2-15, S4-2, S4-4, S4-7: and the lost run counts as an attempt."""
    monkeypatch.setattr(Heartbeater, "step", lambda self: 60.0)
    runs = []

    @app.task
    async def long(ctx: Context) -> str:
        runs.append(ctx.attempt)
        await asyncio.sleep(1.6 if ctx.attempt == 1 else 0)
        return f"attempt {ctx.attempt}"

    job = long.submit()
    async with working(app, lease_ttl=1):
        assert await job.aio.result(LONG) == "attempt 2"
    assert runs == [1, 2]
    assert app.session.counters.get("lease.lost", reason="lease_lost") == 1
    assert app.session.counters.get("lease.recovered") == 1
    assert job.result(0) == "attempt 2"


def test_a_handler_that_blocks_the_loop_keeps_its_lease(sqlite_app: App) -> None:
    """S0-79: heartbeats have a thread of their own; the lag of the loop is counted and logged."""

    @sqlite_app.task
    async def rude() -> str:
        time.sleep(2.2)
        return "sorry"

    runs_before = sqlite_app.session.counters.get("job.claimed")
    job = rude.submit()
    with working_in_thread(sqlite_app, lease_ttl=1):
        eventually_sync(lambda: job.refresh().state is State.RUNNING)
        store = sqlite_app.store
        while job.refresh().state is State.RUNNING:
            assert store.run(store.upkeep.recover(10)) == [], "its lease ran out"
            time.sleep(0.05)
        assert job.result(LONG) == "sorry"
        eventually_sync(lambda: sqlite_app.session.counters.get("loop.lag") > 1.0)
    assert sqlite_app.session.counters.get("job.claimed") - runs_before == 1


async def test_a_task_may_want_leases_of_its_own_length(app: App) -> None:
    """S1-39, S1-46, S0-75, C3: else the worker's, which is 30 s."""
    ttls = {}

    @app.task(lease_ttl=7)
    async def own(ctx: Context) -> None:
        ttls["own"] = ctx.lease.expires_at

    @app.task
    async def workers(ctx: Context) -> None:
        ttls["workers"] = ctx.lease.expires_at

    submitted = app.session.clock.now()
    own.submit()
    workers.submit()
    await drain(app)
    assert timedelta(seconds=7) <= ttls["own"] - submitted < timedelta(seconds=20)
    assert timedelta(seconds=30) <= ttls["workers"] - submitted < timedelta(seconds=45)


async def test_the_apps_timeouts_are_its_tasks_and_its_workers(url: str) -> None:
    """S1-46."""
    timeouts = Timeouts(execution=60, visibility=9, lifetime="1h")
    with App(url, timeouts=timeouts) as app:
        ttls = []

        @app.task
        async def look(ctx: Context) -> None:
            ttls.append(ctx.lease.expires_at)

        submitted = app.session.clock.now()
        job = look.submit().refresh()
        await drain(app)
    assert (job.policy.timeout, job.policy.lifetime) == (60, 3600)
    assert timedelta(seconds=9) <= ttls[0] - submitted < timedelta(seconds=25)


async def test_a_job_past_its_lifetime_is_a_dead_letter_also_while_it_runs(app: App) -> None:
    """S1-41, S1-44, C22: its handler is interrupted, and what it would ack is stale."""
    interrupted = []

    @app.task(lifetime=0.3)
    async def long(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            interrupted.append(ctx.cancel_reason)

    job = long.submit()
    async with working(app, lease_ttl=1):
        found = await ended(job)
        await eventually(lambda: interrupted)
    assert found.state is State.DEAD_LETTER
    assert found.failure is not None
    assert found.failure.code == "lifetime_exceeded"
    assert interrupted == ["lease_lost"]
