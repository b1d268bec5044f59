"""A worker whose ``run()`` is cancelled: nothing of it goes on, and nothing stays in its hands."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, cast

import pytest
from tests.worker.support import LONG, eventually
from tests.worker.test_hanging_store import HangingStore

from fencepost import App, Context, State
from fencepost.clock import SystemClock
from fencepost.core.job.job import AttemptOutcome
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.worker.run.fetcher import UNBEGUN


def started(app: App, **options: Any) -> asyncio.Task[None]:
    return asyncio.create_task(app.worker(**{"grace": 10 * LONG, **options}).aio.run())


async def cancelled(running: asyncio.Task[None]) -> None:
    """Cancel a run, and see that it says so."""
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(running), LONG)
    assert running.cancelled()


def services() -> set[str]:
    """Return the names of a worker's tasks, and of its thread, that live."""
    tasks = {task.get_name() for task in asyncio.all_tasks()}
    threads = {thread.name for thread in threading.enumerate()} & {"fencepost-heart"}
    return {name for name in tasks if name.startswith("fencepost-")} | threads


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_what_runs_is_interrupted_and_given_back(app: App, kind: str) -> None:
    """C23, S3-9: uncounted, in its place, before the CancelledError comes out; not by grace."""
    begun = threading.Event()
    reasons: list[str | None] = []
    beats = 0

    async def on_loop(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(10 * LONG)
        finally:
            reasons.append(ctx.cancel_reason)

    def in_thread(ctx: Context) -> None:
        nonlocal beats
        begun.set()
        try:
            while True:
                beats += 1
                time.sleep(0.001)
        finally:
            reasons.append(ctx.cancel_reason)

    task = app.task(name="long")(on_loop if kind == "async" else in_thread)
    job = task.submit()
    running = started(app)
    await eventually(begun.is_set)
    await cancelled(running)
    assert reasons == ["shutdown"]
    seen = beats
    found = job.refresh()
    assert (found.state, found.attempt, found.lease) == (State.SCHEDULED, 0, None)
    assert [each.outcome for each in job.attempts()] == [AttemptOutcome.RELEASED]
    assert app.workers.list() == [], "it took its leave"
    assert services() == set()
    assert beats == seen


async def test_a_handler_that_finishes_although_interrupted_has_succeeded(app: App) -> None:
    """C23: as at any other stop."""
    begun = asyncio.Event()

    @app.task
    async def work() -> str:
        begun.set()
        try:
            await asyncio.sleep(10 * LONG)
        except asyncio.CancelledError:
            return "just in time"
        raise AssertionError

    job = work.submit()
    running = started(app)
    await begun.wait()
    await cancelled(running)
    assert job.result(0) == "just in time"


async def test_a_second_cancellation_hurries_it(app: App) -> None:
    """One that does not stop is not waited for any longer; its job is given back."""
    begun, go_on = threading.Event(), threading.Event()

    @app.task
    def stuck() -> None:
        begun.set()
        go_on.wait(10 * LONG)

    job = stuck.submit()
    running = started(app)
    await eventually(begun.is_set)
    try:
        running.cancel()
        await asyncio.sleep(0.05)
        assert not running.done(), "it may still tidy up"
        asked_at = time.monotonic()
        await cancelled(running)
        assert time.monotonic() - asked_at < 4.5, "less than a handler may take to tidy up"
    finally:
        go_on.set()
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)


async def test_one_that_is_cancelled_twice_at_once_still_lets_handlers_end(app: App) -> None:
    """As a framework does that repeats a cancellation until it is heard."""
    begun = asyncio.Event()
    ends: list[str | None] = []

    @app.task
    async def work(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(10 * LONG)
        finally:
            ends.append(ctx.cancel_reason)

    job = work.submit()
    running = started(app)
    await begun.wait()
    running.cancel()
    await asyncio.sleep(0)
    await cancelled(running)
    assert ends == ["shutdown"]
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)
    assert app.session.counters.get("slot.leaked") == 0


async def test_jobs_that_a_claim_under_way_brings_are_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their leases have been written: whoever stops has to know of them."""

    @app.task
    async def work() -> None: ...

    asked, answer = asyncio.Event(), asyncio.Event()
    run_async = app.store.run_async

    async def slow(operation: Any) -> Any:
        reply = await run_async(operation)
        if operation.is_a(QueueFacet.claim) and not asked.is_set():
            asked.set()
            await answer.wait()
        return reply

    monkeypatch.setattr(app.store, "run_async", slow)
    job = work.submit()
    running = started(app)
    await asked.wait()
    assert job.refresh().state is State.RUNNING
    running.cancel()
    await asyncio.sleep(0)
    answer.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(running), LONG)
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)


async def test_jobs_of_a_claim_that_a_busy_store_takes_up_late_are_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later than the claimer looks for a lost reply: so the claim itself has to be waited for."""

    @app.task
    async def work() -> None: ...

    asked, go_on = asyncio.Event(), asyncio.Event()
    run_async = app.store.run_async

    async def late(operation: Any) -> Any:
        if operation.is_a(QueueFacet.claim) and not asked.is_set():
            asked.set()
            await go_on.wait()
        return await run_async(operation)

    monkeypatch.setattr(app.store, "run_async", late)
    job = work.submit()
    running = started(app)
    await asked.wait()
    running.cancel()
    await asyncio.sleep(3 * UNBEGUN)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(running), LONG)
    await asyncio.sleep(UNBEGUN)  # for a claim that nothing waited for
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)


async def test_a_store_that_hangs_does_not_keep_one_that_is_cancelled_twice() -> None:
    store = HangingStore(MemoryStore(clock=SystemClock()), QueueFacet.claim)
    app = App("memory://", store=cast(Store, store))

    @app.task
    async def work() -> None: ...

    running = started(app)
    await eventually(store.is_asked.is_set)
    running.cancel()
    await asyncio.sleep(0)
    await cancelled(running)


@pytest.mark.parametrize("kind", ["async", "def"])
def test_a_loop_that_ends_with_a_worker_on_it_leaves_nothing_running(app: App, kind: str) -> None:
    """asyncio.run cancels every task there is, also handlers, and those that write settlements."""
    begun = threading.Event()

    async def on_loop() -> None:
        begun.set()
        await asyncio.sleep(10 * LONG)

    def in_thread() -> None:
        begun.set()
        while True:
            time.sleep(0.001)

    job = app.task(name="long")(on_loop if kind == "async" else in_thread).submit()

    async def main() -> asyncio.Task[None]:
        running = started(app)
        await eventually(begun.is_set)
        return running

    asked_at = time.monotonic()
    assert asyncio.run(main()).cancelled()
    assert time.monotonic() - asked_at < LONG
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)
