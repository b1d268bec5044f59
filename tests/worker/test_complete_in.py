"""``ctx.complete_in``: a handler's writes and the end of its job commit together, or not at all.

On PostgreSQL only: no other store can join a transaction of the handler's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.worker import completing
from tests.worker.completing import NOTE
from tests.worker.support import LONG, drain, ended, eventually, eventually_sync, working

from fencepost import (
    App,
    Category,
    ConfigurationError,
    Context,
    HandlerStopped,
    Job,
    JobHandle,
    Retry,
    StaleLeaseError,
    State,
    TaskHandle,
)

pytestmark = [pytest.mark.postgres("migrated"), pytest.mark.usefixtures("never_late")]

Handler = Callable[..., Any]


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    """An app, and a table of its handlers' in the same database."""
    with psycopg.connect(postgres_url) as conn:
        conn.execute("create table ledger (job uuid, attempt integer)")
    with App(postgres_url, retry=Retry(max_attempts=3, initial_delay=0.01)) as app:
        app.migrate()
        yield app


def ledger(app: App) -> list[int]:
    """Return the attempts whose writes were committed."""
    with psycopg.connect(app.url) as conn:
        return [row[0] for row in conn.execute("select attempt from ledger order by attempt")]


def failure_code(job: Job) -> str | None:
    return job.failure.code if job.failure else None


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def lose_lease(app: App) -> None:
    """Let every lease run out, and take the jobs back."""
    with psycopg.connect(app.url, autocommit=True) as conn:
        conn.execute("update fencepost.leases set expires_at = now() - interval '1 hour'")
        # By ourselves or by the worker, whose own recovery may be at it just now.
        app.store.run(app.store.upkeep.recover(10))
        left = "select 1 where not exists (select 1 from fencepost.leases where expires_at < now())"
        eventually_sync(lambda: conn.execute(left).fetchone(), "every lease taken back")


async def work(app: App, handler: Handler, isolation: Any = None, **options: Any) -> JobHandle[Any]:
    """Run one job of *handler* until nothing is claimable."""
    job = app.task(isolation=isolation)(handler).submit(app.url)
    async with working(app, **options):
        await ended(job)
    return job


EACH_KIND = pytest.mark.parametrize(
    ("handler", "isolation"),
    [
        (completing.complete, None),
        (completing.complete_async, None),
        (completing.complete_over_asyncpg, None),
        (completing.complete, "process"),
        (completing.complete_async, "process"),
        (completing.complete_over_asyncpg, "process"),
    ],
    ids=[
        "def",
        "async",
        "asyncpg",
        "def in a process",
        "async in a process",
        "asyncpg in a process",
    ],
)


@EACH_KIND
async def test_the_writes_and_the_end_of_the_job_commit_together(
    app: App, handler: Handler, isolation: Any, caplog: pytest.LogCaptureFixture
) -> None:
    job = app.task(isolation=isolation)(handler).submit(app.url)
    await drain(app)
    assert job.refresh().state is State.COMPLETED
    assert job.result(0) == "from within"
    assert ledger(app) == [1]
    assert [attempt.outcome for attempt in job.attempts()] == ["succeeded"]
    counters = app.session.counters
    assert counters.get("attempt.ended", outcome="succeeded") == 1
    assert counters.get("job.settled", state="completed") == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_what_was_rolled_back_is_a_failed_attempt(app: App, isolation: Any) -> None:
    job = await work(app, completing.roll_back_first, isolation)
    first, second = job.attempts()
    assert first.failure is not None
    assert (first.failure.code, first.failure.category) == ("not_committed", Category.TEMPORARY)
    assert second.outcome == "succeeded"
    assert (job.result(0), ledger(app)) == ("from within", [2])


async def test_a_handler_that_fails_before_its_commit_has_failed(app: App) -> None:
    """Its own failure is kept, and nothing of its writes."""

    def fail(ctx: Context, url: str) -> None:
        with psycopg.connect(url) as conn:
            completing.note(conn, ctx)
            ctx.complete_in(conn)
            if ctx.attempt < 3:
                raise ValueError("before the commit")

    job = await work(app, fail)
    assert [attempt.outcome for attempt in job.attempts()] == ["failed", "failed", "succeeded"]
    failure = job.attempts()[0].failure
    assert failure is not None
    assert "before the commit" in failure.message
    assert ledger(app) == [3]


async def test_a_handler_that_fails_after_its_commit_has_succeeded(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(ctx: Context, url: str) -> None:
        await completing.complete_async(ctx, url)
        raise ValueError("after the commit")

    job = await work(app, fail)
    assert job.refresh().state is State.COMPLETED
    assert job.refresh().attempt == 1
    assert ledger(app) == [1]
    assert warnings(caplog) == []


async def test_a_stale_lease_rolls_back_both(app: App) -> None:
    """It is refused the completion, or stopped before if its worker hears of the loss first."""
    raised: list[BaseException] = []

    def late(ctx: Context, url: str) -> None:
        if ctx.attempt == 1:
            lose_lease(app)
        try:
            completing.complete(ctx, url)
        except (StaleLeaseError, HandlerStopped) as error:
            raised.append(error)
            raise

    job = await work(app, late)
    assert len(raised) == 1
    assert ledger(app) == [2]
    outcomes = [(a.outcome, a.failure and a.failure.code) for a in job.attempts()]
    assert outcomes == [("failed", "lease_expired"), ("succeeded", None)]


async def test_a_stale_lease_rolls_back_both_on_an_async_connection(app: App) -> None:
    async def late(ctx: Context, url: str) -> None:
        if ctx.attempt == 1:
            await asyncio.to_thread(lose_lease, app)
        await completing.complete_async(ctx, url)

    job = await work(app, late)
    assert ledger(app) == [2]
    assert len(job.attempts()) == 2


async def test_writes_that_are_repeated_after_a_commit_are_rolled_back(app: App) -> None:
    """As by a handler whose commit went through though its connection broke."""

    def twice(ctx: Context, url: str) -> None:
        completing.complete(ctx, url)
        with pytest.raises(StaleLeaseError):
            completing.complete(ctx, url)

    job = await work(app, twice)
    assert job.refresh().state is State.COMPLETED
    assert ledger(app) == [1]


async def test_a_transaction_can_be_tried_again(app: App) -> None:
    def persistent(ctx: Context, url: str) -> None:
        with psycopg.connect(url) as conn:
            for _ in range(3):
                conn.rollback()
                completing.note(conn, ctx)
                ctx.complete_in(conn, b"\x00\xff")

    job = await work(app, persistent)
    assert job.result(0) == b"\x00\xff"
    assert ledger(app) == [1]
    assert job.refresh().attempt == 1


async def test_stricter_isolation_works_too(app: App) -> None:
    def strict(ctx: Context, url: str) -> None:
        with psycopg.connect(url) as conn:
            conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            completing.note(conn, ctx)
            ctx.complete_in(conn, 1)

    job = await work(app, strict)
    assert (job.result(0), ledger(app)) == (1, [1])


async def test_jobs_that_were_claimed_together_complete_one_by_one(app: App) -> None:
    """They share a lease, which each of them locks until its commit; some take it back first."""

    @app.task
    async def together(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(app.url) as conn:
            await conn.execute(NOTE, (ctx.job_id, ctx.attempt))
            await ctx.aio.complete_in(conn, ctx.attempt)
            if ctx.attempt == 1 and ctx.job_id < "4":
                await conn.rollback()

    @app.task
    def beside() -> int:
        return 1

    jobs: list[JobHandle[Any]] = [
        *together.submit_many([()] * 40),
        *beside.submit_many([()] * 40),
    ]
    async with working(app, concurrency=10):
        assert {(await ended(job)).state for job in jobs} == {State.COMPLETED}
    undone = sum(job.id < "4" for job in jobs[:40])
    assert sorted(ledger(app)) == [1] * (40 - undone) + [2] * undone


# Other libraries.


async def test_a_sqlalchemy_session_completes_the_job(app: App) -> None:
    url = app.url.replace("postgresql:", "postgresql+psycopg:", 1)
    engine, async_engine = sa.create_engine(url), create_async_engine(url)
    insert = sa.text("insert into ledger(job, attempt) values (:job, :attempt)")

    def in_thread(ctx: Context, url: str) -> None:
        with Session(engine) as session, session.begin():
            session.execute(insert, {"job": ctx.job_id, "attempt": 1})
            ctx.complete_in(session, "sync")

    async def on_loop(ctx: Context, url: str) -> None:
        async with AsyncSession(async_engine) as session, session.begin():
            await session.execute(insert, {"job": ctx.job_id, "attempt": 2})
            await ctx.aio.complete_in(session, "async")

    jobs: list[JobHandle[Any]] = [
        app.task(in_thread).submit(app.url),
        app.task(on_loop).submit(app.url),
    ]
    await drain(app)
    assert [job.result(0) for job in jobs] == ["sync", "async"]
    assert ledger(app) == [1, 2]
    engine.dispose()
    await async_engine.dispose()


# Time.


async def test_no_beat_waits_for_an_open_transaction(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease runs out meanwhile, which harms nobody: nobody can take the job."""
    counters = app.session.counters
    is_open = asyncio.Event()

    @app.task(lease_ttl=1)
    async def long(ctx: Context) -> Any:
        async with await psycopg.AsyncConnection.connect(app.url) as conn:
            await conn.execute(NOTE, (ctx.job_id, ctx.attempt))
            await ctx.aio.complete_in(conn, "late")
            is_open.set()
            looks = counters.get("store.operation", operation="fates")
            await eventually(
                lambda: counters.get("store.operation", operation="fates") >= looks + 4
            )

    async with working(app):
        job = long.submit()
        await is_open.wait()
        with psycopg.connect(app.url) as conn:
            ((expiry,),) = conn.execute("select expires_at from fencepost.leases").fetchall()
        await eventually(lambda: app.store.clock.now() > expiry)
        assert app.store.run(app.store.upkeep.recover(10)) == []
        assert await job.aio.result(LONG) == "late"
    assert ledger(app) == [1]
    assert job.refresh().attempt == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_a_handler_goes_on_after_its_commit(
    app: App, isolation: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The heartbeat finds the job completed, and neither interrupts the handler nor complains."""
    counters = app.session.counters
    handler = completing.complete_and_stay
    task: TaskHandle[..., Any] = app.task(isolation=isolation, lease_ttl=1)(handler)
    job = task.submit(app.url, str(tmp_path))
    async with working(app):
        assert await job.aio.result(LONG) == "from within"
        await eventually(lambda: counters.get("store.operation", operation="fates") >= 1)
        (tmp_path / "go on").touch()
        await eventually((tmp_path / "gone on").exists)
    assert (tmp_path / "gone on").read_text() == "None"
    assert counters.get("lease.lost") == 0
    assert warnings(caplog) == []


async def test_a_transaction_that_outlives_its_handler_may_still_be_committed(app: App) -> None:
    with psycopg.connect(app.url) as conn:

        @app.task
        def leave(ctx: Context) -> Any:
            completing.note(conn, ctx)
            ctx.complete_in(conn, "in the end")

        async with working(app):
            job = leave.submit()
            counters = app.session.counters
            await eventually(lambda: counters.get("store.operation", operation="fates") >= 2)
            assert job.refresh().state is State.RUNNING
            conn.commit()
            assert await job.aio.result(LONG) == "in the end"
    assert ledger(app) == [1]
    assert job.refresh().attempt == 1


async def test_a_transaction_that_is_left_open_holds_nobody_up(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    conn = psycopg.connect(app.url)

    @app.task(lease_ttl=1)
    def leave(ctx: Context) -> Any:
        if ctx.attempt == 1:
            completing.note(conn, ctx)
            ctx.complete_in(conn)

    @app.task
    def other() -> int:
        return 1

    async with working(app):
        job = leave.submit()
        counters = app.session.counters
        await eventually(lambda: counters.get("attempt.left_open") == 1)
        assert any("attempt.left_open" in text for text in warnings(caplog))
        assert await other.submit().aio.result(LONG) == 1
        conn.close()
        job = app.jobs.get(job.id)
        assert await job.aio.result(LONG) is None
    outcomes = [(a.outcome, a.failure and a.failure.code) for a in job.attempts()]
    assert outcomes == [("failed", "lease_expired"), ("succeeded", None)]
    assert ledger(app) == []


# Crashes.


async def test_a_crash_before_the_commit_undoes_both(app: App) -> None:
    job = await work(app, completing.die_before_commit_first, "process")
    outcomes = [(a.outcome, a.failure and a.failure.code) for a in job.attempts()]
    assert outcomes == [("failed", "process_died"), ("succeeded", None)]
    assert ledger(app) == [2]


async def test_a_crash_after_the_commit_undoes_neither(app: App) -> None:
    job = await work(app, completing.die_after_commit, "process")
    assert job.refresh().state is State.COMPLETED
    assert job.refresh().attempt == 1
    assert ledger(app) == [1]


# Mistakes.


async def test_a_transaction_has_to_be_open(app: App) -> None:
    raised: list[str] = []

    def careless(ctx: Context, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            with pytest.raises(ConfigurationError) as caught:
                ctx.complete_in(conn)
            raised.append(str(caught.value))
            with conn.transaction():
                completing.note(conn, ctx)
                ctx.complete_in(conn)

    job = await work(app, careless)
    assert job.refresh().state is State.COMPLETED
    assert "autocommit" in raised[0]


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/jobs.db"])
async def test_other_stores_say_that_they_cannot(url: str, tmp_path: Path) -> None:
    with App(url.format(tmp_path), retry=Retry.none()) as app:

        @app.task
        async def work(ctx: Context) -> None:
            with pytest.raises(ConfigurationError, match="PostgreSQL only"):
                ctx.complete_in(object())
            await ctx.aio.complete_in(object())

        job = work.submit()
        await drain(app)
        failure = job.refresh().failure
        assert failure is not None
        assert "PostgreSQL only" in failure.message
