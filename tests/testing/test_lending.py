"""An app on a borrowed store gives it back, and never touches its own meanwhile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from fencepost import App, Context, State
from fencepost.testing import FakeClock, drain, memory_store


def test_the_own_store_is_not_even_opened(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def work() -> int:
        return 1

    with memory_store(app) as clock:
        job = work.submit()
        assert app.store.clock is clock
        drain(app)
        assert job.result() == 1
        assert app.jobs.count() == 1
    assert list(tmp_path.iterdir()) == []


def test_an_open_store_is_given_back_as_it_was(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def work() -> None: ...

        kept = work.submit()
        store, clock, url = app.store, app.session.clock, app.session.url
        with suppress(ZeroDivisionError), memory_store(app):
            assert app.jobs.count() == 0
            work.submit()
            app.close()  # ends the borrowed store only
            raise ZeroDivisionError
        assert (app.store, app.session.clock, app.session.url) == (store, clock, url)
        assert [job.id for job in app.jobs.find()] == [kept.id]


async def test_the_async_face_is_lent_too() -> None:
    app = App("memory://")

    @app.task
    def work() -> None: ...

    with memory_store(app):
        await work.aio.submit()
        assert await app.aio.jobs.count() == 1
    with memory_store(app):
        await work.aio.submit()
        assert await app.aio.jobs.count() == 1
    assert app.jobs.count() == 0


def test_the_clock_may_be_given() -> None:
    app, clock = App("memory://"), FakeClock(seed=7)
    with memory_store(app, clock=clock) as used:
        assert used is clock


async def test_waiting_for_a_job_that_nobody_runs_is_refused_at_once() -> None:
    app = App("memory://")

    @app.task
    def work() -> int:
        return 1

    with memory_store(app):
        for job in (work.submit(), work.submit()):
            with pytest.raises(RuntimeError, match=r"drain\(\)"):
                job.result(timeout=10)
            with pytest.raises(RuntimeError, match=r"drain\(\)"):
                await job.aio.result()
        with pytest.raises(RuntimeError, match=r"drain\(\)"):
            work.wait()
        drain(app)
        assert job.result() == 1
        assert await job.aio.result() == 1


async def test_what_joins_a_transaction_is_done_at_once() -> None:
    app = App("memory://")

    @app.task
    def work(ctx: Context) -> int:
        ctx.complete_in("a connection", result=5)
        return 0  # what was completed counts

    @app.task
    async def work_async(ctx: Context) -> int:
        await ctx.aio.complete_in("a connection", result=6)
        return 0

    with memory_store(app):
        first = work.using(conn="a connection").submit()
        second = await work_async.aio.using(conn="a connection").submit()
        ran = await drain.aio(app)
        assert [r.state for r in ran] == [State.COMPLETED, State.COMPLETED]
        assert first.result() == 5
        assert await second.result() == 6


def test_a_completion_that_was_refused_is_not_taken_for_one() -> None:
    app = App("memory://")

    with memory_store(app) as clock:

        @app.task
        def late(ctx: Context) -> None:
            if ctx.attempt == 1:
                clock.advance("1h")
            ctx.complete_in("a connection")

        late.submit()
        ran = drain(app, advance="all")
        assert [type(r.error).__name__ for r in ran] == ["StaleLeaseError", "NoneType"]
        assert ran[-1].state is State.COMPLETED
