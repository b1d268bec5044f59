"""``Retry(on=…, never=…)``: the same in a thread, on the loop, in a child, and in ``drain``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worker import isolated
from tests.worker.support import drain

from fencepost import App, Client, ConfigurationError, JobHandle, Retry, State
from fencepost.testing import drain as drain_here

ON = Retry(max_attempts=2, initial_delay=3600, on=LookupError)
NEVER = Retry(max_attempts=2, initial_delay=3600, never=(LookupError, SyntaxError))
KINDS: dict[str, Callable[[], Exception]] = {"key": lambda: KeyError("k"), "value": ValueError}


def ended(job: JobHandle[Any]) -> tuple[State, int, str | None]:
    found = job.refresh()
    assert found.failure is not None
    return found.state, found.attempt, found.failure.code


RETRIED = (State.RETRYING, 1, None)
REFUSED = (State.FAILED, 1, "not_retryable")


def declared(app: App, retry: Retry) -> list[Any]:
    @app.task(retry=retry)
    def in_a_thread(kind: str) -> None:
        raise KINDS[kind]()

    @app.task(retry=retry)
    async def on_the_loop(kind: str) -> None:
        raise KINDS[kind]()

    return [in_a_thread, on_the_loop]


async def test_a_worker_goes_by_the_class(app: App) -> None:
    tasks = declared(app, ON)
    jobs = [(await task.aio.submit(kind)).id for task in tasks for kind in ("key", "value")]
    await drain(app)
    assert [ended(app.jobs.get(id)) for id in jobs] == [RETRIED, REFUSED] * 2


async def test_what_is_never_retried_is_not_even_if_all_else_is(app: App) -> None:
    jobs = [task.submit(kind) for task in declared(app, NEVER) for kind in ("key", "value")]
    await drain(app)
    assert [ended(job) for job in jobs] == [REFUSED, RETRIED] * 2


def test_an_app_gives_its_tasks_the_classes(url: str) -> None:
    with App(url, retry=ON) as app:

        @app.task
        def fail(kind: str) -> None:
            raise KINDS[kind]()

        @app.task(retry=Retry(initial_delay=3600))
        def own(kind: str) -> None:
            raise KINDS[kind]()

        jobs = [task.submit("value") for task in (fail, own)]
        app.worker().run(until_idle=True)
        assert [ended(job) for job in jobs] == [REFUSED, RETRIED]


def test_a_test_that_drains_sees_the_same() -> None:
    app = App("memory://")
    jobs = [task.submit(kind) for task in declared(app, ON) for kind in ("key", "value")]
    drain_here(app)
    assert [ended(job) for job in jobs] == [RETRIED, REFUSED] * 2


async def test_a_child_process_goes_by_the_class(sqlite_app: App) -> None:
    retry = Retry(max_attempts=2, initial_delay=3600, on=isolated.FlakyError)
    raise_kind = sqlite_app.task(isolation="process", retry=retry)(isolated.raise_kind)
    jobs = [raise_kind.submit(kind) for kind in ("flaky", "flakier", "value", "exit")]
    await drain(sqlite_app, concurrency=1)
    assert [ended(job) for job in jobs] == [RETRIED, RETRIED, REFUSED, REFUSED]


def test_a_child_process_needs_classes_that_it_can_import(sqlite_app: App) -> None:
    class LocalError(Exception): ...

    with pytest.raises(ConfigurationError, match="LocalError is not"):
        sqlite_app.task(isolation="process", retry=Retry(on=LocalError))(isolated.raise_kind)
    sqlite_app.task(retry=Retry(on=LocalError))(isolated.raise_kind)


def test_a_submission_cannot_bring_classes(app: App) -> None:
    (task, _) = declared(app, ON)
    with pytest.raises(ConfigurationError, match="belongs to the task"):
        task.using(retry=ON)
    with pytest.raises(ConfigurationError, match="belongs to the task"):
        Client("http://x").task("t").using(retry=ON)
    job = task.using(retry=Retry(max_attempts=7, initial_delay=3600)).submit("value")
    app.worker().run(until_idle=True)
    assert job.refresh().max_attempts == 7
    assert ended(job) == REFUSED
