"""What a handler returns or raises, and what becomes of its job."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.worker.support import drain, ended, eventually, working

from fencepost import (
    App,
    Category,
    Context,
    Failure,
    Job,
    PermanentError,
    Retry,
    Snooze,
    State,
    TemporaryError,
)
from fencepost.core.job.job import AttemptOutcome

pytestmark = pytest.mark.usefixtures("never_late")

ONCE = Retry.none()


def failure_of(job: Job) -> Failure:
    assert job.failure is not None
    return job.failure


async def test_handlers_run_on_the_loop_or_in_a_thread(app: App) -> None:
    """S0-1, S0-30, S1-16, S1-24, S2-33: ``async def`` on the loop, ``def`` beside it."""
    here = threading.get_ident()

    @app.task
    async def on_loop(x: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        return x, threading.get_ident()

    @app.task
    def in_thread(x: int) -> tuple[int, int]:
        return x, threading.get_ident()

    first, second = on_loop.submit(1), in_thread.submit(2)
    await drain(app)
    assert await first.aio.result(0) == (1, here)
    value, thread = await second.aio.result(0)
    assert value == 2
    assert thread != here
    job = first.refresh()
    assert (job.state, job.attempt, job.lease) == (State.COMPLETED, 1, None)


async def test_an_unclassified_exception_is_temporary_and_tried_again(app: App) -> None:
    """S0-31, S0-43, S1-18, S1-26, S1-81, S1-86, S2-34."""

    @app.task
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise OSError("no route")
        return ctx.attempt

    job = flaky.submit()
    async with working(app):
        assert await job.aio.result(10) == 3
    first, second, third = job.attempts()
    assert first.failure is not None
    assert (first.failure.category, first.failure.exception) == (
        Category.TEMPORARY,
        "builtins.OSError",
    )
    assert (first.failure.message, first.failure.code) == ("no route", None)
    assert "flaky" in (first.failure.traceback or "")
    assert [second.outcome, third.outcome] == [AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED]


async def test_attempts_are_bounded_and_then_the_job_is_a_dead_letter(app: App) -> None:
    """S0-22, S0-32, S0-44, S0-60, S1-19, S1-27, S3-22, S3-24."""
    runs = []

    @app.task(retry=Retry(max_attempts=2, initial_delay=0.01))
    async def hopeless(ctx: Context) -> None:
        runs.append(ctx.attempt)
        raise TemporaryError("still down")

    job = hopeless.submit()
    async with working(app):
        found = await ended(job)
    assert (found.state, found.attempt, runs) == (State.DEAD_LETTER, 2, [1, 2])
    [letter] = app.dead_letters.list(type="hopeless")
    assert (letter.job_id, letter.failure.message) == (job.id, "still down")
    assert letter.completed_at == found.completed_at


async def test_a_permanent_error_is_not_tried_again_and_keeps_its_code(app: App) -> None:
    """S1-17, S1-25, S1-80, S1-82, S1-89."""

    @app.task
    async def refuse() -> None:
        raise PermanentError("no such user", KeyError("u1"), code="user_404")

    job = refuse.submit()
    await drain(app)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.FAILED, 1)
    failure = failure_of(found)
    assert (failure.category, failure.code) == (Category.PERMANENT, "user_404")
    assert "KeyError" in (failure.traceback or "")


async def test_retry_after_is_honoured_beyond_the_backoff(app: App) -> None:
    """S0-11, S0-67, S1-88, C34: at least so long, whatever the policy says."""

    @app.task
    async def throttled() -> None:
        raise TemporaryError("slow down", retry_after="1h")

    job = throttled.submit()
    await drain(app)
    found = job.refresh()
    assert found.state is State.RETRYING
    assert timedelta(minutes=59) < found.run_at - datetime.now(UTC) <= timedelta(hours=1)
    assert job.why()[0].code == "backing_off"


async def test_a_snooze_is_not_counted(app: App) -> None:
    runs = []

    @app.task(retry=ONCE)
    async def poll(ctx: Context) -> str:
        runs.append(ctx.attempt)
        if len(runs) < 4:
            raise Snooze(0.01)
        return "there"

    job = poll.submit()
    async with working(app):
        assert await job.aio.result(10) == "there"
    assert runs == [1, 1, 1, 1]
    assert [a.outcome for a in job.attempts()][:3] == [AttemptOutcome.SNOOZED] * 3


@pytest.mark.parametrize("result", [object(), float("nan"), {1, object()}, "\ud800"])
async def test_a_result_that_cannot_be_stored_fails_for_good(app: App, result: object) -> None:
    """S1-82: and says that it was the result."""

    @app.task
    async def give() -> Any:
        return result

    job = give.submit()
    await drain(app)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.FAILED, 1)
    assert failure_of(found).code == "invalid_result"


async def test_a_binary_result_comes_back_as_it_was(app: App) -> None:
    """S1-90."""

    @app.task
    def reverse(data: bytes) -> bytes:
        return data[::-1]

    job = reverse.submit(b"\x00\xff\x01")
    await drain(app)
    assert job.result(0) == b"\x01\xff\x00"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_handler_that_would_exit_fails_its_job_and_not_its_worker(
    app: App, kind: str, error: BaseException
) -> None:
    """S4-1: or one poison job would end every worker that claims it."""

    def leave() -> None:
        raise error

    async def leave_async() -> None:
        raise error

    task = app.task(name="leave", retry=ONCE)(leave if kind == "def" else leave_async)

    @app.task
    async def after() -> str:
        return "alive"

    job, next_job = task.submit(), after.submit()
    await drain(app, concurrency=1)
    assert job.refresh().state is State.DEAD_LETTER
    assert failure_of(job.refresh()).category is Category.TEMPORARY
    assert next_job.result(0) == "alive"


async def test_sys_exit_in_a_thread_is_a_failure_like_any_other(app: App) -> None:
    @app.task(retry=ONCE)
    def leave() -> None:
        sys.exit("enough")

    job = leave.submit()
    await drain(app)
    assert "enough" in failure_of(job.refresh()).message


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_handler_cancelled_by_its_own_doing_has_failed(app: App, kind: str) -> None:
    """S1-80, S1-86: nobody interrupted it, so its job must not hang until the lease runs out."""

    async def awaits_a_cancelled_task() -> None:
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    def raises_it() -> None:
        raise asyncio.CancelledError

    task = app.task(name="t", retry=ONCE)(raises_it if kind == "def" else awaits_a_cancelled_task)
    job = task.submit()
    await drain(app)
    found = job.refresh()
    assert found.state is State.DEAD_LETTER
    assert failure_of(found).category is Category.TEMPORARY


async def test_a_failure_that_cannot_be_written_down_ends_its_job_alone(app: App) -> None:
    """S4-1: a code that is not Unicode must not stop the settlements of all other jobs."""

    @app.task(retry=ONCE)
    async def refuse() -> None:
        raise PermanentError("no", code="\ud800")

    @app.task
    async def work(x: int) -> int:
        return x

    job, others = refuse.submit(), work.submit_many(range(5))
    async with working(app, lease_ttl=1):
        assert [await other.aio.result(10) for other in others] == list(range(5))
        assert (await ended(job)).state in (State.FAILED, State.DEAD_LETTER)


async def test_running_out_of_memory_is_a_system_failure(app: App) -> None:
    """S1-80, S1-85: resource exhaustion is SYSTEM, whose retry can be switched off."""

    @app.task(retry=Retry(max_attempts=5, on_system=False))
    def hungry() -> None:
        raise MemoryError

    job = hungry.submit()
    await drain(app)
    assert job.refresh().state is State.FAILED
    assert failure_of(job.refresh()).category is Category.SYSTEM


async def test_what_one_job_sets_no_other_job_sees(app: App) -> None:
    """Context variables of a handler are its own, on the loop and in a reused thread."""
    variable = contextvars.ContextVar("variable", default="clean")
    seen = []

    @app.task
    async def on_loop(x: int) -> None:
        seen.append(variable.get())
        variable.set("dirty")
        await asyncio.sleep(0)

    @app.task
    def in_thread(x: int) -> None:
        seen.append(variable.get())
        variable.set("dirty")

    on_loop.submit_many(range(10))
    in_thread.submit_many(range(10))
    await drain(app, concurrency=1)
    assert seen == ["clean"] * 20


async def test_an_idle_worker_claims_new_jobs_at_once_and_never_in_a_busy_loop(app: App) -> None:
    """S2-31: it rests between empty claims, and is woken by a submission."""

    @app.task
    async def ping() -> str:
        return "pong"

    def claims() -> float:
        return app.session.counters.get("store.operation", operation="claim")

    async with working(app) as worker:
        await eventually(lambda: worker.id in {w.id for w in app.workers.list()})
        before = claims()
        await asyncio.sleep(0.5)
        assert claims() - before <= 5
        assert await ping.aio.wait(timeout=10) == "pong"
