"""Submitting: what is stored, in both faces, with every option."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.worker.support import drain, working

from fencepost import (
    App,
    ConfigurationError,
    DuplicateJobError,
    InvalidJobError,
    Job,
    JobFailedError,
    JobHandle,
    JobNotFoundError,
    PermanentError,
    Priority,
    Retry,
    State,
    WaitTimeoutError,
)
from fencepost.core.job.job import Body, Encoding


@dataclass
class Point:
    x: int
    y: int


async def test_a_job_is_submitted_run_and_its_result_read_in_both_faces(app: App) -> None:
    """S0-28, S0-36, S1-13, S1-16, S1-20, S3-4, S3-6."""

    @app.task
    async def add(a: int, b: int = 10) -> int:
        return a + b

    job, async_job = add.submit(1), await add.aio.submit(1, b=2)
    assert (job.state, async_job.state) == (State.SCHEDULED, State.SCHEDULED)
    assert (job.type, job.duplicate) == ("add", False)
    async with working(app):
        assert await async_job.result(timeout=10) == 3
        assert await async_job == 3
        assert await asyncio.to_thread(job.result, 10) == 11
        assert await add.aio.wait(2, 3, timeout="10s") == 5
        assert await asyncio.to_thread(add.wait, 5, timeout=10) == 15
    assert (job.state, async_job.state) == (State.COMPLETED, State.COMPLETED)


async def test_a_result_comes_back_as_the_type_the_task_declares(app: App) -> None:
    """S1-90."""

    @app.task
    async def turn(point: Point) -> Point:
        return Point(point.y, point.x)

    job = turn.submit(Point(1, 2))
    await drain(app)
    assert job.result(0) == Point(2, 1)


async def test_a_result_that_does_not_fit_the_declaration_comes_back_as_it_is(app: App) -> None:
    @app.task
    async def fib() -> Point:
        return {"not": "a point"}  # type: ignore[return-value]  # that is the point

    @app.task
    async def untyped():  # type: ignore[no-untyped-def]  # as many users write it
        return [1, "two"]

    lie: JobHandle[Any] = fib.submit()
    free = untyped.submit()
    await drain(app)
    assert lie.result(0) == {"not": "a point"}
    assert free.result(0) == [1, "two"]
    app.session.tasks.clear()
    assert app.jobs.get(lie.id).result(0) == {"not": "a point"}, "from a program without the task"


def test_ids_are_random_uuids_that_the_system_assigns(app: App) -> None:
    """S1-1, S1-2, S1-96, S0-35, C16."""

    @app.task
    def work(x: int) -> None: ...

    ids = [job.id for job in work.submit_many(range(100))]
    assert len(set(ids)) == 100
    assert {UUID(each).version for each in ids} == {4}
    with pytest.raises(ConfigurationError, match="assigned by the system"):
        work.using(id=ids[0])  # type: ignore[call-arg]  # that is the point


def test_every_option_reaches_the_stored_job(app: App) -> None:
    """S1-6, S1-7, S1-14, S1-21, S1-31, S1-46, S1-105, S1-106, S1-107, S1-108."""

    @app.task(name="t.send", queue="mail", priority=Priority.LOW)
    def send(x: int) -> None: ...

    used = send.using(
        delay="1h",
        priority="critical",
        queue="urgent",
        key="k1",
        tags={"tenant": "7"},
        correlation_id="c1",
        timeout=5,
        lease_ttl=2,
        lifetime="2h",
        retry=Retry(max_attempts=9, initial_delay=3, on_timeout=False),
    )
    job = used.submit(1).refresh()
    assert (job.type, job.queue, job.priority) == ("t.send", "urgent", Priority.CRITICAL)
    assert (job.key, job.tags, job.correlation_id) == ("k1", {"tenant": "7"}, "c1")
    assert (job.state, job.run_at - job.created_at) == (State.DELAYED, timedelta(hours=1))
    assert job.expires_at - job.created_at == timedelta(hours=2)
    policy = job.policy
    assert (policy.timeout, policy.lease_ttl, policy.lifetime) == (5, 2, 7200)
    assert (job.max_attempts, policy.backoff.initial_delay, policy.on_timeout) == (9, 3, False)
    plain = send.submit(2).refresh()
    assert (plain.queue, plain.priority, plain.tags) == ("mail", Priority.LOW, {})


def test_options_add_up_and_the_last_word_counts(app: App) -> None:
    @app.task
    def work() -> None: ...

    due = datetime.now(UTC) + timedelta(days=1)
    first = work.using(tags={"a": "1", "b": "1"}, delay=60, priority=1)
    second = first.using(tags={"b": "2"}, run_at=due, timeout=9)
    job = second.submit().refresh()
    assert (job.tags, job.priority, job.run_at) == ({"a": "1", "b": "2"}, 1, due)
    assert job.policy.timeout == 9
    back = second.using(delay=0).submit().refresh()
    assert back.state is State.SCHEDULED
    assert work.submit().refresh().tags == {}, "the task itself is unchanged"


def test_a_jobs_system_fields_are_set_by_the_system(app: App) -> None:
    """S1-97, S1-98, S1-99, S1-100, S1-101, S1-102, S1-103, S1-104, C33."""

    @app.task
    def work() -> None: ...

    before = datetime.now(UTC)
    job = work.submit().refresh()
    after = datetime.now(UTC)
    assert before <= job.created_at <= after
    assert job.created_at == job.updated_at == job.scheduled_at
    assert (job.state, job.attempt, job.lease_version) == (State.SCHEDULED, 0, 0)
    assert (job.started_at, job.completed_at, job.lease, job.result_body) == (
        None,
        None,
        None,
        None,
    )
    with pytest.raises(ConfigurationError):
        work.using(created_at=before)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(AttributeError):
        job.state = State.COMPLETED  # type: ignore[misc]  # that is the point


def test_defaults_are_those_of_the_requirements(app: App) -> None:
    """S0-58, S1-32, S1-38, S1-41, S1-47, S1-48, S1-49, S1-50, S1-51, C1, C4."""

    @app.task
    def work() -> None: ...

    job: Job = work.submit().refresh()
    assert (job.queue, job.priority, job.max_attempts) == ("default", Priority.NORMAL, 3)
    assert (job.policy.timeout, job.policy.lifetime) == (1800, 7 * 86400)
    backoff = job.policy.backoff
    assert (backoff.strategy, backoff.initial_delay) == ("exponential", 1)
    assert (backoff.max_delay, backoff.multiplier, backoff.jitter) == (3600, 2.0, 0)
    assert app.timeouts.submission == 30


def test_a_binary_argument_is_stored_as_it_is(app: App) -> None:
    """S1-90, S1-92, S1-93, C24."""

    @app.task
    def keep(data: bytes) -> None: ...

    job = keep.submit(b"\x00\xff\xfe").refresh()
    assert job.payload_body == Body(b"\x00\xff\xfe", Encoding.BINARY)


async def test_text_of_all_kinds_survives_the_round_trip(app: App) -> None:
    """S1-90, S1-92."""

    @app.task
    async def echo(text: str, more: dict[str, list[float | None]]) -> list[object]:
        return [text, more]

    text = 'naïve 🦊 \x00 \u2028 \\ "'
    more: dict[str, list[float | None]] = {"": [1.5, None], "ключ": [1e300, -0.0]}
    job = echo.submit(text, more=more)
    await drain(app)
    assert job.result(0) == [text, more]


def test_a_plain_call_runs_the_function_here(app: App) -> None:
    @app.task(name="other")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert add.__wrapped__(1, 2) == 3
    assert add.type == "other"
    assert app.jobs.count() == 0


async def test_waiting_raises_what_became_of_the_job(app: App) -> None:
    """S3-6, S1-17."""

    @app.task
    async def fail() -> None:
        raise PermanentError("no", code="e1")

    job = fail.submit()
    with pytest.raises(WaitTimeoutError) as waited:
        job.result(timeout=0.01)
    assert (waited.value.code, waited.value.state) == ("wait_timeout", State.SCHEDULED)
    with pytest.raises(WaitTimeoutError):
        await job.aio.result(timeout=0)
    await drain(app)
    with pytest.raises(JobFailedError) as failed:
        job.result(0)
    assert (failed.value.code, failed.value.failure_code) == ("job_failed", "e1")
    assert (failed.value.category, failed.value.job_id) == ("permanent", job.id)
    with pytest.raises(JobNotFoundError):
        app.jobs.get("00000000-0000-4000-8000-000000000000")


def test_two_tasks_of_one_name_are_refused(app: App) -> None:
    def first() -> None: ...

    def second() -> None: ...

    app.task(name="t")(first)
    app.task(name="t")(first)
    with pytest.raises(ConfigurationError, match="two tasks are called 't'"):
        app.task(name="t")(second)


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert App().url == "sqlite:///fencepost.db"
    monkeypatch.setenv("DATABASE_URL", "postgresql://host/shop")
    assert App().url == "postgresql://host/shop"
    monkeypatch.setenv("FENCEPOST_URL", "memory://")
    assert App().url == "memory://"
    assert App("sqlite:///first.db").url == "sqlite:///first.db"


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("postgres://host/shop", True),
        ("POSTGRESQL://host/shop", True),
        ("postgresql+psycopg://host/shop", True),
        ("postgresql+asyncpg://host/shop", True),
        # Refused when it is opened, rather than passed over for a file: it is meant to be a server.
        ("postgresql+psycopg2://host/shop", True),
        ("sqlite:///db.sqlite3", False),
        ("sqlite:////var/lib/shop/db.sqlite3", False),
        ("mysql://host/shop", False),
        ("memory://", False),
        ("", False),
    ],
)
def test_of_other_programs_databases_only_postgresql_is_taken(
    monkeypatch: pytest.MonkeyPatch, url: str, taken: bool
) -> None:
    """A web framework's DATABASE_URL may name a SQLite file, which is the framework's own."""
    monkeypatch.setenv("DATABASE_URL", url)
    assert App().url == (url if taken else "sqlite:///fencepost.db")


async def test_a_key_that_is_taken_while_waiting_does_not_lose_the_result(app: App) -> None:
    """S3-15: submit and wait in one, under a key that is free again afterwards (S3-13)."""

    @app.task
    async def work(x: int) -> int:
        return x

    async with working(app):
        assert await work.aio.wait_idempotent("k", 1, timeout=10) == 1
        assert await work.aio.wait_idempotent("k", 2, timeout=10) == 2
        assert await asyncio.to_thread(work.wait_idempotent, "k", 3, timeout=10) == 3
    assert app.jobs.count(state="completed") == 3
    work.submit_idempotent("k", 4)
    with pytest.raises(DuplicateJobError):
        work.wait_idempotent("k", 5)


@pytest.mark.parametrize("face", ["plain", "aio"])
@pytest.mark.parametrize("way", ["submit", "submit_many", "prepare", "flow", "idempotent"])
async def test_a_job_that_could_never_run_is_refused(app: App, face: str, way: str) -> None:
    """C48: by delay and by run_at, and strangers who submit meanwhile are stored."""

    @app.task(lifetime="1h")
    def work(n: int) -> None: ...

    late = datetime.now(UTC) + timedelta(hours=2)
    for options in ({"delay": "1h"}, {"delay": "2h"}, {"run_at": late}):
        late_work = work.using(**options)

        async def submit(task: Any = late_work) -> None:
            aio = task.aio
            match way, face:
                case "submit", "plain":
                    task.submit(1)
                case "submit", _:
                    await aio.submit(1)
                case "submit_many", "plain":
                    task.submit_many([1, 2])
                case "submit_many", _:
                    await aio.submit_many([1, 2])
                case "idempotent", "plain":
                    task.submit_idempotent("k", 1)
                case "idempotent", _:
                    await aio.submit_idempotent("k", 1)
                case "flow", "plain":
                    app.flow({"a": work.prepare(1), "b": task.using(after="a").prepare(2)}).submit()
                case _:
                    app.submit_many([task.prepare(1)])

        refused, stored = await asyncio.gather(submit(), work.aio.submit(0), return_exceptions=True)
        assert isinstance(refused, InvalidJobError)
        assert "lifetime" in str(refused)
        assert not isinstance(stored, BaseException)
    assert app.jobs.count() == 3
    work.using(delay="59m").submit(1)
    work.using(delay="2h", lifetime="3h").submit(1)


def test_a_cron_whose_jobs_could_never_run_is_refused(app: App) -> None:
    """C48: where it is declared, not at its first tick."""

    @app.task(lifetime="1h")
    def work() -> None: ...

    with pytest.raises(InvalidJobError, match="lifetime"):
        app.cron("@daily")(work.using(delay="1h"))
