"""``drain``: what is due runs here and now, as a worker would run it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import (
    App,
    BatchJob,
    ConfigurationError,
    Context,
    PermanentError,
    Retry,
    Snooze,
    State,
    TemporaryError,
)
from fencepost.testing import FakeClock, Ran, drain, memory_store


@pytest.fixture
def app(clock: FakeClock) -> Iterator[App]:
    app = App("memory://")
    with memory_store(app, clock=clock):
        yield app


def test_what_is_due_runs_in_this_thread_in_the_order_of_a_worker(app: App) -> None:
    threads = []

    @app.task
    def note(n: int) -> int:
        threads.append(threading.get_ident())
        return 2 * n

    late = note.using(priority="low").submit(1)
    early = note.submit(2)
    ran = drain(app)
    assert [(r.job_id, r.type, r.attempt, r.result, r.state) for r in ran] == [
        (early.id, "note", 1, 4, State.COMPLETED),
        (late.id, "note", 1, 2, State.COMPLETED),
    ]
    assert early.result() == 4
    assert set(threads) == {threading.get_ident()}
    assert drain(app) == []


@pytest.mark.parametrize("is_async", [True, False])
def test_a_batch_handler_gets_its_jobs_in_batches(app: App, is_async: bool) -> None:
    sizes: list[int] = []

    def both(jobs: list[BatchJob[int]]) -> list[Any]:
        sizes.append(len(jobs))
        return [job.payload if job.payload else ValueError("zero") for job in jobs]

    async def coroutine(jobs: list[BatchJob[int]]) -> list[Any]:
        return both(jobs)

    task = app.task(name="batched", batch=3)(coroutine if is_async else both)
    task.submit_many([1, 0, 3, 4, 5])
    task.using(queue="other").submit(6)
    ran = drain(app)
    assert sorted(sizes) == [1, 2, 3]
    assert {each.result for each in ran} == {1, None, 3, 4, 5, 6}
    assert [str(each.error) for each in ran if each.state is State.RETRYING] == ["zero"]
    task.submit(0)
    with pytest.raises(ValueError, match="zero"):
        drain(app, raises=True)
    task.submit_many([1, 2, 3])
    with pytest.raises(AssertionError, match="ran 2 attempts"):
        drain(app, limit=2)


def test_what_a_job_submits_runs_too(app: App) -> None:
    @app.task
    def child(n: int) -> None: ...

    @app.task
    def parent() -> None:
        child.submit(1)
        child.using(delay="1h").submit(2)

    parent.submit()
    assert [r.type for r in drain(app)] == ["parent", "child"]
    assert app.jobs.count(state="delayed") == 1


def test_a_coroutine_runs_and_several_share_a_loop(app: App) -> None:
    loops = []

    @app.task
    async def wait(n: int) -> int:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return n

    wait.submit_many([1, 2])
    assert [r.result for r in drain(app)] == [1, 2]
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


async def test_the_async_face_runs_on_the_loop_of_the_test(app: App) -> None:
    loops = []

    @app.task
    async def wait() -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    @app.task
    def plain() -> int:
        return threading.get_ident()

    await wait.aio.submit()
    plain.submit()
    assert [r.result for r in await drain.aio(app)] == [None, threading.get_ident()]
    assert loops == [asyncio.get_running_loop()]


async def test_a_coroutine_is_refused_inside_a_loop_and_the_async_face_is_named(app: App) -> None:
    @app.task
    async def wait() -> None: ...

    wait.submit()
    with pytest.raises(RuntimeError, match=r"drain\.aio"):
        drain(app)


async def test_a_test_that_is_cancelled_does_not_take_it_for_a_failure(app: App) -> None:
    started = asyncio.Event()

    @app.task
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    hang.submit()
    draining = asyncio.create_task(drain.aio(app))
    await started.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining


def test_failures_are_classified_as_by_a_worker(app: App) -> None:
    errors: dict[str, BaseException] = {
        "temporary": TemporaryError("busy"),
        "permanent": PermanentError("no such user", code="gone"),
        "other": ValueError("oops"),
        "exit": SystemExit(3),
        "cancelled": asyncio.CancelledError(),
    }

    @app.task(retry=Retry(max_attempts=2))
    def fail(kind: str) -> None:
        raise errors[kind]

    fail.submit_many(list(errors))
    ran = drain(app)
    seen = {
        kind: (r.state, r.failure and (r.failure.category, r.failure.code))
        for kind, r in zip(errors, ran, strict=True)
    }
    assert seen == {
        "temporary": (State.RETRYING, ("temporary", None)),
        "permanent": (State.FAILED, ("permanent", "gone")),
        "other": (State.RETRYING, ("temporary", None)),
        "exit": (State.RETRYING, ("temporary", None)),
        "cancelled": (State.RETRYING, ("temporary", None)),
    }
    assert [r.error for r in ran] == list(errors.values())


def test_a_result_that_cannot_be_stored_is_a_failure(app: App) -> None:
    @app.task
    def give() -> Any:
        return object()

    give.submit()
    (ran,) = drain(app)
    assert ran.state is State.FAILED
    assert ran.failure
    assert ran.failure.code == "invalid_result"
    assert ran.result is None


def test_retries_and_delayed_jobs_run_when_time_is_advanced(app: App, clock: FakeClock) -> None:
    start = clock.now()
    times = []

    @app.task(retry=Retry(max_attempts=3, initial_delay="10s", multiplier=2, jitter=None))
    def flaky(ctx: Context) -> None:
        times.append((clock.now() - start).total_seconds())
        if ctx.attempt < 3:
            raise TemporaryError("busy")

    flaky.using(delay="1m").submit()
    assert drain(app) == []
    assert [r.attempt for r in drain(app, advance="75s")] == [1, 2]
    assert (clock.now() - start).total_seconds() == 75
    (last,) = drain(app, advance="all")
    assert (last.attempt, last.state) == (3, State.COMPLETED)
    assert times == [60, 70, 90]
    assert (clock.now() - start).total_seconds() == 90


def test_advance_reaches_its_end_when_nothing_is_due(app: App, clock: FakeClock) -> None:
    start = clock.now()
    assert drain(app, advance="1h") == []
    assert (clock.now() - start).total_seconds() == 3600


def test_a_snoozed_job_comes_back(app: App) -> None:
    naps = iter([Snooze("5m"), None])

    @app.task
    def nap(ctx: Context) -> int:
        error = next(naps)
        if error is not None:
            raise error
        return ctx.attempt

    nap.submit()
    ran = drain(app, advance="all", raises=True)
    assert [(r.state, r.result) for r in ran] == [(State.DELAYED, None), (State.COMPLETED, 1)]


def test_a_lease_that_was_left_behind_is_recovered(app: App, clock: FakeClock) -> None:
    @app.task
    def slow(ctx: Context) -> None:
        if ctx.attempt == 1:
            clock.advance("1h")  # nobody heartbeats: another may take the job

    slow.submit()
    lost, again = drain(app, advance="all")
    assert lost.state is State.RUNNING
    assert (again.attempt, again.state) == (2, State.COMPLETED)


def test_an_exception_is_raised_into_the_test_when_asked(app: App) -> None:
    @app.task
    def fail() -> None:
        raise KeyError("order")

    job = fail.submit()
    with pytest.raises(KeyError, match="order"):
        drain(app, raises=True)
    assert job.refresh().state is State.RETRYING


def test_jobs_without_end_are_an_error(app: App) -> None:
    @app.task
    def again() -> None:
        again.submit()

    again.submit()
    with pytest.raises(AssertionError, match=r"ran 20 attempts .*'again'.*limit="):
        drain(app, limit=20)

    @app.task
    def tick() -> None:
        tick.using(delay="1h").submit()

    app.jobs.cancel(type="again")
    tick.submit()
    with pytest.raises(AssertionError, match="'tick'"):
        drain(app, advance="all", limit=20)
    assert len(drain(app, advance="5h")) == 5


def test_what_pytest_raises_is_no_failure_of_the_handler(app: App) -> None:
    @app.task
    def skip() -> None:
        pytest.skip("not here")

    skip.submit()
    with pytest.raises(pytest.skip.Exception):
        drain(app)


def test_other_apps_and_paused_queues_are_left_alone(app: App) -> None:
    @app.task
    def work() -> None: ...

    @app.task(queue="mail")
    def mail() -> None: ...

    work.submit()
    mail.submit()
    app.queues.pause("mail")
    del app.session.tasks["work"]
    assert drain(app, advance="1h") == []


def test_a_durable_store_is_drained_on_real_time(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def double(n: int) -> int:
            return 2 * n

        job = double.submit(21)
        assert [r.result for r in drain(app)] == [42]
        assert job.result(timeout=5) == 42
        with pytest.raises(ConfigurationError, match="memory_store"):
            drain(app, advance="1h")


def test_what_ran_is_shown_in_a_line() -> None:
    ran = Ran(job_id="x", type="pay", attempt=2, state=State.COMPLETED, result=7)
    assert repr(ran) == "<Ran pay attempt=2 state=completed result=7>"
