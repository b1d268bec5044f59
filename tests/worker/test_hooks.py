"""Hooks: around attempts, after failures, before submissions, and as long as a worker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.worker.support import drain, ended, working

from fencepost import (
    App,
    ConfigurationError,
    Context,
    FailedAttempt,
    FencepostError,
    NewJob,
    PermanentError,
    Priority,
    Retry,
    Snooze,
    State,
    chain,
)
from fencepost.testing import drain as drain_here
from fencepost.testing import memory_store

pytestmark = pytest.mark.usefixtures("never_late")

seen: ContextVar[str] = ContextVar("seen", default="nothing")

Call = Callable[[], Any]
AsyncCall = Callable[[], Awaitable[Any]]


def declare(app: App, kind: str, steps: list[str], name: str) -> None:
    """Add a hook of this kind that notes when it begins and ends."""
    if kind == "async def":

        @app.around
        async def awaited(ctx: Context, call: AsyncCall) -> None:
            steps.append(f"{name} begins")
            seen.set(f"{seen.get()} {name}")
            result = await call()
            steps.append(f"{name} ends with {result}")
    else:

        @app.around
        def called(ctx: Context, call: Call) -> None:
            steps.append(f"{name} begins")
            seen.set(f"{seen.get()} {name}")
            result = call()
            steps.append(f"{name} ends with {result}")


@pytest.mark.parametrize("handler", ["def", "async def"])
@pytest.mark.parametrize("inner", ["def", "async def"])
@pytest.mark.parametrize("outer", ["def", "async def"])
async def test_hooks_of_both_kinds_wrap_handlers_of_both_kinds(
    sqlite_app: App, outer: str, inner: str, handler: str
) -> None:
    """The first declared is the outermost, and context variables reach what is inside."""
    steps: list[str] = []
    declare(sqlite_app, outer, steps, "outer")
    declare(sqlite_app, inner, steps, "inner")
    if handler == "def":

        @sqlite_app.task(name="work")
        def work() -> str:
            steps.append("handler")
            return seen.get()

        job = work.submit()
    else:

        @sqlite_app.task(name="work")
        async def work_async() -> str:
            await asyncio.sleep(0)
            steps.append("handler")
            return seen.get()

        job = work_async.submit()
    await drain(sqlite_app)
    result = "nothing outer inner"
    assert steps == [
        "outer begins",
        "inner begins",
        "handler",
        f"inner ends with {result}",
        f"outer ends with {result}",
    ]
    assert job.result(5) == result
    assert seen.get() == "nothing"


@pytest.mark.parametrize("handler", ["def", "async def"])
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_a_hook_raises_fails_the_attempt_and_never_loses_the_job(
    sqlite_app: App, when: str, kind: str, handler: str
) -> None:
    attempts: list[int] = []
    if kind == "def":

        @sqlite_app.around
        def called(ctx: Context, call: Call) -> None:
            if when == "after":
                call()
            if ctx.attempt == 1:
                raise OSError("cannot commit")
            if when == "before":
                call()
    else:

        @sqlite_app.around
        async def awaited(ctx: Context, call: AsyncCall) -> None:
            if when == "after":
                await call()
            if ctx.attempt == 1:
                raise OSError("cannot commit")
            if when == "before":
                await call()

    if handler == "def":

        @sqlite_app.task(name="work")
        def work(ctx: Context) -> int:
            attempts.append(ctx.attempt)
            return 7

        job = work.submit()
    else:

        @sqlite_app.task(name="work")
        async def work_async(ctx: Context) -> int:
            attempts.append(ctx.attempt)
            return 7

        job = work_async.submit()
    async with working(sqlite_app):
        assert await job.aio.result(30) == 7
    assert attempts == ([2] if when == "before" else [1, 2])
    first, second = job.attempts()
    assert first.failure is not None
    assert first.failure.message == "cannot commit"
    assert second.failure is None


@pytest.mark.parametrize("handler", ["def", "async def"])
async def test_a_hook_cannot_hide_a_failure(sqlite_app: App, handler: str) -> None:
    caught: list[BaseException] = []

    @sqlite_app.around
    async def lenient(ctx: Context, call: AsyncCall) -> None:
        try:
            await call()
        except PermanentError as error:
            caught.append(error)

    if handler == "def":

        @sqlite_app.task(name="work")
        def work() -> None:
            raise PermanentError("no")

        job = work.submit()
    else:

        @sqlite_app.task(name="work")
        async def work_async() -> None:
            raise PermanentError("no")

        job = work_async.submit()
    await drain(sqlite_app)
    assert job.refresh().state is State.FAILED
    assert [str(error) for error in caught] == ["no"]


async def test_a_hook_that_does_not_call_the_handler_fails_the_attempt(sqlite_app: App) -> None:
    @sqlite_app.around
    async def forgetful(ctx: Context, call: AsyncCall) -> None: ...

    @sqlite_app.task(retry=Retry.none())
    async def work() -> None:
        raise AssertionError("called")

    job = work.submit()
    await drain(sqlite_app)
    failure = job.refresh().failure
    assert failure is not None
    assert "forgetful returned before the handler had" in failure.message


async def test_a_hook_cannot_call_the_handler_twice(sqlite_app: App) -> None:
    calls: list[int] = []

    @sqlite_app.around
    def eager(ctx: Context, call: Call) -> None:
        call()
        call()

    @sqlite_app.task(retry=Retry.none())
    def work() -> None:
        calls.append(1)

    job = work.submit()
    await drain(sqlite_app)
    failure = job.refresh().failure
    assert failure is not None
    assert "has called the handler twice" in failure.message
    assert calls == [1]


async def test_a_snooze_passes_through_hooks(sqlite_app: App) -> None:
    steps: list[str] = []
    declare(sqlite_app, "async def", steps, "outer")
    declare(sqlite_app, "def", steps, "inner")

    @sqlite_app.task
    async def work() -> None:
        raise Snooze("1h")

    job = work.submit()
    await drain(sqlite_app)
    stored = job.refresh()
    assert (stored.state, stored.attempt, stored.failure) == (State.DELAYED, 0, None)
    assert steps == ["outer begins", "inner begins"]


async def test_hooks_can_be_limited_to_types_and_queues(sqlite_app: App) -> None:
    ran: list[str] = []

    @sqlite_app.task
    async def first() -> None: ...

    @sqlite_app.task
    async def second() -> None: ...

    @sqlite_app.around(types=[first])
    async def of_one_type(ctx: Context, call: AsyncCall) -> None:
        ran.append(f"type {ctx.type}")
        await call()

    @sqlite_app.around(queues=["mail"])
    async def of_one_queue(ctx: Context, call: AsyncCall) -> None:
        ran.append(f"queue {ctx.type}")
        await call()

    first.submit()
    second.submit()
    second.using(queue="mail").submit()
    await drain(sqlite_app)
    assert sorted(ran) == ["queue second", "type first"]


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_timeout_ends_handler_and_hook(sqlite_app: App, kind: str) -> None:
    """The hook cleans up, after the handler."""
    steps: list[str] = []
    if kind == "def":

        @sqlite_app.around
        def called(ctx: Context, call: Call) -> None:
            try:
                call()
            finally:
                steps.append("hook cleaned up")
    else:

        @sqlite_app.around
        async def awaited(ctx: Context, call: AsyncCall) -> None:
            try:
                await call()
            finally:
                steps.append("hook cleaned up")

    @sqlite_app.task(timeout=0.1, retry=Retry.none())
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            steps.append("handler cleaned up")

    job = slow.submit()
    await drain(sqlite_app)
    failure = job.refresh().failure
    assert failure is not None
    assert failure.code == "execution_timeout"
    assert steps == ["handler cleaned up", "hook cleaned up"]


async def test_failures_are_announced_with_what_comes_next(sqlite_app: App) -> None:
    failures: list[tuple[str, int, str, bool, bool]] = []
    dead: list[tuple[int, str]] = []

    @sqlite_app.on_failure
    def note(ctx: Context, failed: FailedAttempt) -> None:
        is_soon = failed.retry_in is not None
        failures.append((ctx.type, ctx.attempt, str(failed.error), failed.will_retry, is_soon))

    @sqlite_app.on_dead_letter
    async def alarm(ctx: Context, failed: FailedAttempt) -> None:
        dead.append((ctx.attempt, failed.failure.message))

    @sqlite_app.task(retry=Retry(max_attempts=2, initial_delay=0.01))
    async def work() -> None:
        raise ValueError("no")

    job = work.submit()
    async with working(sqlite_app):
        await ended(job)
    assert failures == [("work", 1, "no", True, True), ("work", 2, "no", False, False)]
    assert dead == [(2, "no")]


async def test_a_failing_failure_hook_is_logged_and_changes_nothing(
    sqlite_app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @sqlite_app.on_failure
    async def broken(ctx: Context, failed: FailedAttempt) -> None:
        raise KeyError("hook")

    @sqlite_app.on_dead_letter
    def broken_too(ctx: Context, failed: FailedAttempt) -> None:
        raise KeyError("hook")

    @sqlite_app.task(retry=Retry.none())
    async def work() -> None:
        raise ValueError("no")

    job = work.submit()
    with caplog.at_level(logging.ERROR):
        await drain(sqlite_app)
    assert job.refresh().state is State.DEAD_LETTER
    failed = [e for e in caplog.records if vars(e).get("fencepost_event") == "hook.failed"]
    assert len(failed) == 2
    assert all(job.id in each.getMessage() and each.exc_info for each in failed)


async def test_every_submission_passes_the_hooks(app: App) -> None:
    @app.on_submit
    def mark(job: NewJob) -> NewJob:
        return replace(job, tags={**job.tags, "tenant": "acme"})

    @app.on_submit(types=["other"])
    def never(job: NewJob) -> None:
        raise AssertionError("of another type")

    @app.task
    async def work(n: int) -> None: ...

    @app.task
    async def parent(ctx: Context) -> None:
        await ctx.aio.spawn(work.prepare(9))

    @app.event("user.created").on
    async def greet(n: int) -> None: ...

    work.submit(1)
    await work.aio.submit(2)
    work.submit_many([(3,), (4,)])
    app.submit_many([work.prepare(5)])
    app.flow(chain(work.prepare(6), work.prepare(7))).submit()
    app.event("user.created").send(n=8)
    parent.submit()
    await drain(app)
    assert app.jobs.count() == app.jobs.count(tags={"tenant": "acme"}) == 10


def test_a_hook_can_refuse_a_submission(sqlite_app: App) -> None:
    @sqlite_app.on_submit
    def refuse(job: NewJob) -> None:
        raise PermissionError("no tenant")

    @sqlite_app.task
    async def work() -> None: ...

    with pytest.raises(PermissionError, match="no tenant"):
        work.submit()
    with pytest.raises(PermissionError, match="no tenant"):
        work.submit_many([(), ()])
    assert sqlite_app.jobs.count() == 0


def test_a_hook_that_returns_something_else_is_refused(sqlite_app: App) -> None:
    @sqlite_app.on_submit
    def wrong(job: NewJob) -> Any:
        return job.tags

    @sqlite_app.task
    async def work() -> None: ...

    with pytest.raises(ConfigurationError, match=r"the hook .*wrong returned"):
        work.submit()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tags": {"tenant": 7}}, "tag 'tenant' must be non-empty text, got 7"),
        ({"tags": {"fencepost.event": "x"}}, "tags that only Fencepost sets"),
        ({"queue": "a\nb"}, "queue must be printable text"),
        ({"priority": 9}, "priority must be"),
        ({"type": "fencepost.mine"}, "are Fencepost's own"),
        ({"key": "text"}, "expected a Key"),
        ({"correlation_id": ""}, "correlation_id must be non-empty text"),
        ({"id": b"1" * 16}, "cannot change id"),
        ({"submitter": "me"}, "cannot change submitter"),
    ],
)
def test_what_a_hook_changes_is_checked_as_if_a_caller_had_given_it(
    sqlite_app: App, changes: dict[str, Any], words: str
) -> None:
    """A store trusts its jobs: what cannot be read would be in the way of every claim."""

    @sqlite_app.on_submit
    def careless(job: NewJob) -> NewJob:
        return replace(job, **changes)

    @sqlite_app.task
    async def work() -> None: ...

    with pytest.raises(FencepostError, match=words) as caught:
        work.submit()
    assert "careless has changed the job" in caught.value.__notes__[0]
    assert sqlite_app.jobs.count() == 0


def test_what_a_hook_changes_takes_effect_for_this_job_alone(sqlite_app: App) -> None:
    @sqlite_app.on_submit
    def mark(job: NewJob) -> NewJob | None:
        job.tags["mark"] = job.queue
        return replace(job, priority="high", concurrency_key="k") if job.queue == "a" else None

    @sqlite_app.task
    async def work() -> None: ...

    prepared = work.using(tags={"own": "1"})
    changed, left = prepared.using(queue="a").submit().refresh(), prepared.submit().refresh()
    assert (changed.tags, changed.priority) == ({"own": "1", "mark": "a"}, Priority.HIGH)
    assert (changed.concurrency_key, changed.policy.max_running_per_key) == ("k", 1)
    assert (left.tags, left.priority) == ({"own": "1"}, Priority.NORMAL)


async def test_a_lifespan_lasts_as_long_as_a_worker(sqlite_app: App) -> None:
    steps: list[str] = []

    @sqlite_app.lifespan
    async def pool(app: App) -> AsyncIterator[str]:
        assert app is sqlite_app
        steps.append("opened")
        yield "the pool"
        steps.append("closed")

    @sqlite_app.task
    async def on_the_loop(ctx: Context) -> None:
        steps.append(ctx.state)

    @sqlite_app.task
    def in_a_thread(ctx: Context) -> None:
        steps.append(ctx.state)

    on_the_loop.submit()
    in_a_thread.submit()
    await drain(sqlite_app)
    assert steps == ["opened", "the pool", "the pool", "closed"]


async def test_a_worker_whose_lifespan_cannot_begin_claims_nothing(sqlite_app: App) -> None:
    @sqlite_app.lifespan
    async def pool(app: App) -> AsyncIterator[None]:
        if app is sqlite_app:
            raise OSError("no database")
        yield

    @sqlite_app.task
    async def work() -> None: ...

    job = work.submit()
    with pytest.raises(OSError, match="no database"):
        await drain(sqlite_app)
    stored = job.refresh()
    assert (stored.state, stored.attempt) == (State.SCHEDULED, 0)


def test_a_child_process_has_hooks_and_a_lifespan_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKED_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("HOOKED_LEFT", str(tmp_path / "left"))
    (tmp_path / "left").mkdir()
    monkeypatch.delitem(__import__("sys").modules, "tests.worker.hooked", raising=False)
    from tests.worker import hooked

    with hooked.app as app:
        jobs = [hooked.look.submit(), hooked.look_async.submit()]
        app.worker(concurrency=1).run(until_idle=True)
        results = [job.result(5) for job in jobs]
    left = {int(path.name) for path in (tmp_path / "left").iterdir()}
    for of_lifespan, of_handler, _, tenant in results:
        assert of_lifespan == of_handler
        assert of_handler in left
        assert tenant == "acme"
    assert [result[2] for result in results] == [1, 2]


def test_hooks_are_called_by_the_testing_kit_too() -> None:
    app = App("memory://")
    steps: list[str] = []
    declare(app, "async def", steps, "outer")
    declare(app, "def", steps, "inner")

    @app.lifespan
    async def pool(app: App) -> AsyncIterator[str]:
        yield "the pool"
        steps.append("closed")

    @app.on_dead_letter
    def alarm(ctx: Context, failed: FailedAttempt) -> None:
        steps.append(f"dead: {failed.error}")

    @app.task
    def work(ctx: Context) -> str:
        return str(ctx.state)

    @app.task
    async def fail() -> None:
        raise PermanentError("no")

    with memory_store(app):
        work.submit()
        fail.submit()
        first, second = drain_here(app)
    assert (first.result, second.state) == ("the pool", State.FAILED)
    assert steps == [
        "outer begins",
        "inner begins",
        "inner ends with the pool",
        "outer ends with the pool",
        "outer begins",
        "inner begins",
        "dead: no",
        "closed",
    ]


def test_hooks_that_could_not_be_called_are_refused() -> None:
    app = App("memory://")
    with pytest.raises(ConfigurationError, match="must take these arguments: ctx, call"):
        app.around(lambda ctx: None)
    with pytest.raises(ConfigurationError, match="must take these arguments: job"):
        app.on_submit(lambda: None)
    with pytest.raises(ConfigurationError, match="types takes names or tasks"):
        app.around(types=cast("Any", [7]))
    with pytest.raises(ConfigurationError, match="one `yield`"):

        @app.lifespan
        async def no_generator(app: App) -> None: ...

    @app.lifespan
    async def first(app: App) -> AsyncIterator[None]:
        yield

    with pytest.raises(ConfigurationError, match="has a lifespan already"):
        app.lifespan(first)


async def test_handlers_without_hooks_stay_in_their_thread(sqlite_app: App) -> None:
    """A hook for one type costs others nothing."""
    names: list[str] = []

    @sqlite_app.around(types=["other"])
    async def elsewhere(ctx: Context, call: AsyncCall) -> None:
        raise AssertionError("of another type")

    @sqlite_app.task
    def work() -> None:
        names.append(threading.current_thread().name)

    work.submit()
    await drain(sqlite_app)
    assert names[0].startswith("fencepost-handler-")
