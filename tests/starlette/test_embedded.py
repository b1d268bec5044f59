"""A worker beside a server: it works, stops gracefully, and never dies unseen."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.worker.support import LONG, eventually

from fencepost import App, ConfigurationError, State
from fencepost.starlette import lifespan, mount, worker


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


def site_of(app: App) -> Starlette:
    site = Starlette()
    mount(site, app, "/queue/")
    return site


async def readiness(site: Starlette) -> httpx.Response:
    """Return what the mounted API says of this process, without a token."""
    transport = httpx.ASGITransport(app=site)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get("/queue/health/ready")


async def until_ready(site: Starlette, status: int = 200) -> httpx.Response:
    deadline = time.monotonic() + LONG
    while (answer := await readiness(site)).status_code != status:
        assert time.monotonic() < deadline, answer.text
        await asyncio.sleep(0.05)
    return answer


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if "has failed" in each.getMessage()]


async def test_it_runs_jobs_on_a_loop_and_a_thread_of_its_own(app: App) -> None:
    @app.task
    async def where() -> str:
        return threading.current_thread().name

    async with lifespan(app, worker=True, concurrency=2)(site_of(app)):
        job = await where.aio.submit()
        assert await job.result(LONG) == "fencepost-embedded"
    assert not [each for each in threading.enumerate() if each.name == "fencepost-embedded"]


async def test_a_handler_that_blocks_holds_up_no_request(app: App) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.task
    async def block() -> None:
        started.set()
        go_on.wait(LONG)

    site = site_of(app)
    async with lifespan(app, worker=True)(site):
        job = await block.aio.submit()
        await eventually(started.is_set)
        assert (await readiness(site)).status_code in (200, 503)
        go_on.set()
        await job.result(LONG)


async def test_running_jobs_finish_before_the_server_ends(app: App) -> None:
    started = threading.Event()

    @app.task
    async def slow() -> str:
        started.set()
        await asyncio.sleep(0.3)
        return "finished"

    async with lifespan(app, worker=True)(site_of(app)):
        job = slow.submit()
        await eventually(started.is_set)
    assert job.refresh().state is State.COMPLETED
    assert app.workers.list() == []


async def test_what_does_not_finish_within_grace_is_released(app: App) -> None:
    started = threading.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.sleep(600)

    async with lifespan(app, worker=True, grace=0.1)(site_of(app)):
        job = endless.submit()
        await eventually(started.is_set)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.SCHEDULED, 0)


@pytest.mark.parametrize("error", [RuntimeError("no lamp"), SystemExit(3)], ids=repr)
async def test_a_failure_is_seen_in_health_and_log_and_it_starts_again(
    app: App,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    monkeypatch.setattr(worker, "EMBEDDED_PAUSE_MIN", 0.01)
    is_mended = threading.Event()

    @app.lifespan
    async def fail(_: App) -> AsyncIterator[None]:
        if not is_mended.is_set():
            raise error
        yield

    @app.task
    async def work() -> int:
        return 7

    site = site_of(app)
    async with lifespan(app, worker=True)(site):
        await eventually(lambda: failures(caplog))
        answer = await until_ready(site, 503)
        assert f"worker_failed: {type(error).__name__}: {error}" in answer.json()["detail"]
        job = work.submit()
        is_mended.set()
        await until_ready(site)
        assert await job.aio.result(LONG) == 7
    assert failures(caplog)[0].levelname == "ERROR"
    assert failures(caplog)[0].exc_info is not None
    assert (await until_ready(site)).status_code == 200  # there is no worker to wait for


async def test_one_that_does_not_stop_is_left_behind_with_a_word(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that blocks its loop cannot be interrupted; its lease runs out."""
    for name in ("INTERRUPT_GRACE", "THREADS_FAREWELL"):
        monkeypatch.setattr(worker, name, 0.1)
    started, go_on = threading.Event(), threading.Event()

    @app.task
    async def block() -> None:
        started.set()
        go_on.wait(LONG)

    beside = worker.EmbeddedWorker(app, grace=0)
    beside.start()
    block.submit()
    await eventually(started.is_set)
    await beside.stop()
    assert ["has not stopped" in each.getMessage() for each in failures(caplog)] == [True]
    go_on.set()
    await asyncio.to_thread(beside._thread.join, LONG)
    assert not beside._thread.is_alive()


async def test_the_lifespan_can_be_entered_again(app: App) -> None:
    """As tests of a site do, with each client of theirs."""

    @app.task
    async def work() -> int:
        return 7

    for _ in range(2):
        async with lifespan(app, worker=True, migrate=True)(site_of(app)):
            assert await (await work.aio.submit()).result(LONG) == 7
    assert app.jobs.count() == 2


async def test_a_store_that_lives_in_the_process_is_kept() -> None:
    with App("memory://") as app:

        @app.task
        async def work() -> int:
            return 7

        async with lifespan(app)(site_of(app)):
            work.submit()
        assert app.jobs.count() == 1


async def test_an_error_of_the_site_ends_the_worker_too(app: App) -> None:
    with pytest.raises(ZeroDivisionError):
        async with lifespan(app, worker=True)(site_of(app)):
            raise ZeroDivisionError
    assert not [each for each in threading.enumerate() if each.name == "fencepost-embedded"]


async def test_options_that_could_not_be_used_are_refused(app: App) -> None:
    options: Any = {"concurrency": 3}
    with pytest.raises(ConfigurationError, match=r"concurrency: .*worker=True"):
        lifespan(app, **options)
    with pytest.raises(ConfigurationError, match="grace"):
        async with lifespan(app, worker=True, grace="soon")(site_of(app)):
            raise AssertionError("it was entered")
    with pytest.raises(ConfigurationError, match="concurrency"):
        async with lifespan(app, worker=True, concurrency=0)(site_of(app)):
            raise AssertionError("it was entered")


@pytest.mark.parametrize("path", ["", "/", "queue", "/{tenant}/queue"])
def test_a_path_that_is_none_is_refused(app: App, path: str) -> None:
    with pytest.raises(ConfigurationError, match="mount below a fixed path"):
        mount(Starlette(), app, path)


def test_the_api_can_be_mounted_without_the_dashboard(app: App) -> None:
    site = Starlette()
    mount(site, app, "/queue", dashboard=False)
    assert site.url_path_for("fencepost", path="/v1/jobs") == "/queue/v1/jobs"
    (mounted,) = site.routes
    assert isinstance(mounted, Mount)
    paths = {getattr(each, "path", "") for each in mounted.routes or ()}
    assert "/v1/jobs" in paths
    assert "/" not in paths
