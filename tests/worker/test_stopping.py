"""A worker that is told to stop: it finishes what it can, and gives back the rest uncounted."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.worker.support import (
    LONG,
    drain,
    eventually,
    eventually_sync,
    executor_of,
    working_in_thread,
)

from fencepost import App, Context, Priority, State
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import Event
from fencepost.store.interface.queue import ClaimRequest
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots


async def test_running_jobs_finish_within_grace_and_no_more_are_claimed(app: App) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    job = work.submit()
    worker = app.worker(grace=LONG, concurrency=2)
    running = asyncio.create_task(worker.aio.run())
    await started.wait()
    worker.stop()
    late = work.submit()
    await asyncio.sleep(0.1)
    assert not running.done()
    go_on.set()
    await asyncio.wait_for(running, LONG)
    assert job.result(0) == "done"
    assert late.refresh().state is State.SCHEDULED


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_what_grace_does_not_suffice_for_is_released_uncounted(app: App, kind: str) -> None:
    """C23: SCHEDULED again, in its old place, the attempt not counted, the token stale."""
    started = threading.Event()
    reasons: list[str | None] = []
    release = threading.Event()

    async def on_loop(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            reasons.append(ctx.cancel_reason)

    def in_thread(ctx: Context) -> None:
        started.set()
        while not ctx.cancelled:
            release.wait(0.005)
        reasons.append(ctx.cancel_reason)
        release.wait(LONG)

    task = app.task(name="long")(on_loop if kind == "async" else in_thread)
    job = task.submit()
    worker = app.worker(grace=0.1)
    running = asyncio.create_task(worker.aio.run())
    await asyncio.to_thread(started.wait, LONG)
    worker.stop()
    await asyncio.wait_for(running, LONG)
    release.set()
    found = job.refresh()
    assert (found.state, found.attempt, found.lease) == (State.SCHEDULED, 0, None)
    assert found.lease_version > 0
    assert reasons == ["shutdown"]
    assert [a.outcome for a in job.attempts()] == [AttemptOutcome.RELEASED]


async def test_a_released_job_runs_again_with_all_its_attempts(app: App) -> None:
    """C23: a hundred deploys do not make a dead letter."""
    started = asyncio.Event()
    attempts = []

    @app.task(retry=None)
    async def work(ctx: Context) -> str:
        attempts.append((ctx.attempt, ctx.lease.version))
        started.set()
        if len(attempts) < 6:
            await asyncio.sleep(60)
        return "done"

    job = work.submit()
    for _ in range(5):
        started.clear()
        worker = app.worker(grace=0)
        running = asyncio.create_task(worker.aio.run())
        await started.wait()
        worker.stop()
        await asyncio.wait_for(running, LONG)
    await drain(app)
    assert job.result(0) == "done"
    assert [attempt for attempt, _ in attempts] == [1] * 6
    versions = [version for _, version in attempts]
    assert versions == sorted(set(versions))


def test_a_second_stop_does_not_wait(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """A second call stops at once; what runs is released if the store is there."""
    caplog.set_level("INFO")
    started, release = threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        started.set()
        release.wait(LONG)

    job = long.submit()
    worker = app.worker(grace=LONG)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert started.wait(LONG)
    asked = time.monotonic()
    worker.stop()
    worker.stop()
    thread.join(LONG)
    assert not thread.is_alive()
    assert time.monotonic() - asked < LONG / 2
    told = f"worker {worker.id} stops: running jobs (1) may finish within 30s, then they are given"
    assert any(each.startswith(told) for each in caplog.messages)
    release.set()
    assert job.refresh().state is State.SCHEDULED


async def test_a_worker_told_to_stop_before_it_runs_does_nothing(app: App) -> None:
    @app.task
    async def work() -> None: ...

    job = work.submit()
    worker = app.worker()
    worker.stop()
    await asyncio.wait_for(worker.aio.run(), LONG)
    assert job.refresh().state is State.SCHEDULED
    await asyncio.wait_for(worker.aio.run(until_idle=True), LONG)
    assert job.refresh().state is State.COMPLETED, "the next run is a run like any other"


def test_a_worker_is_on_the_roster_while_it_runs(app: App) -> None:
    """S0-39, S2-4: under an id of its own, also in the same process."""

    @app.task
    async def work() -> None: ...

    with (
        working_in_thread(app, queues={"mail": 3}, concurrency=7) as first,
        working_in_thread(app) as second,
    ):
        eventually_sync(lambda: len(app.workers.list()) == 2)
        listed = app.workers.list()
        assert {worker.id for worker in listed} == {first.id, second.id}
        [info] = [worker for worker in listed if worker.id == first.id]
        assert (info.queues, info.concurrency, info.types) == ({"mail": 3}, 7, ("work",))
    assert app.workers.list() == []


def test_a_handlers_worker_is_recorded(app: App) -> None:
    """S0-39, S2-4, S2-6, S0-71: while it runs, and in its attempt afterwards."""
    started, go_on = threading.Event(), threading.Event()

    @app.task
    def work() -> None:
        started.set()
        go_on.wait(LONG)

    job = work.submit()
    with working_in_thread(app) as worker:
        assert started.wait(LONG)
        lease = job.refresh().lease
        assert lease is not None
        assert (lease.worker, lease.expired) == (worker.id, False)
        assert [lease.version] == [each.lease_version for each in job.attempts()]
        go_on.set()
        job.result(LONG)
    assert job.attempts()[0].worker == worker.id


async def test_a_lost_job_whose_thread_cannot_be_stopped_is_not_waited_for(app: App) -> None:
    """C23: nobody would settle it any more, however long the grace is."""
    started, release = threading.Event(), threading.Event()

    @app.task
    def stuck() -> None:
        started.set()
        release.wait(LONG)

    job = stuck.submit()
    worker = app.worker(grace=10 * LONG, lease_ttl=1)
    running = asyncio.create_task(worker.aio.run())
    await eventually(started.is_set)
    worker.stop()
    job.cancel()
    await asyncio.wait_for(running, LONG)
    release.set()
    assert job.refresh().state is State.CANCELLED


async def test_what_waits_for_more_urgent_coroutines_is_released(
    app: App, never_late: None
) -> None:
    """C41: a thread that has to wait for its turn has not started when the worker stops."""

    @app.task(priority=Priority.CRITICAL)
    async def urgent() -> None:
        raise AssertionError

    @app.task(priority=Priority.BULK)
    def other() -> None:
        raise AssertionError

    for task in (urgent, other):
        task.submit()
    claim = app.store.run(app.store.queue.claim(ClaimRequest(worker="w", limit=2)))
    inflight = InFlight()
    held, _ = inflight.take(claim.jobs, asked_at=0.0, answered_at=0.0)
    slots = WorkerSlots(2, inflight)
    executor = executor_of(app, slots, inflight)
    executor.take(held)
    executor.stop_starting()
    await eventually(lambda: slots.taken == 0)
    assert [each.decision.event for each in executor.settler.pending] == [Event.RELEASE] * 2
    await executor.close()
