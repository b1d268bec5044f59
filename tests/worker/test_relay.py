"""Short handlers run one after another in one task, and none can tell."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import Counter
from typing import Any

import pytest
from tests.worker.support import LONG, drain

from fencepost import App, Retry
from fencepost.generators import rest_of
from fencepost.worker.run.relay import TURN

JOBS = 100
ONCE = Retry.none()


def task_of_mine() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_handlers_that_never_wait_share_tasks(app: App) -> None:
    tasks: list[asyncio.Task[Any]] = []  # kept, so that no two have the same identity

    @app.task
    async def short(x: int) -> int:
        tasks.append(task_of_mine())
        return x

    jobs = short.submit_many(range(JOBS))
    await drain(app, concurrency=JOBS)
    assert [job.result(0) for job in jobs] == list(range(JOBS))
    assert len(set(map(id, tasks))) < JOBS / 2


async def test_the_loop_gets_its_turn(app: App) -> None:
    """However many wait: two that each use up their turn do not share a task."""
    tasks: list[asyncio.Task[Any]] = []

    @app.task
    async def busy() -> None:
        tasks.append(task_of_mine())
        time.sleep(1.2 * TURN)

    busy.submit_many([()] * 20)
    await drain(app, concurrency=20)
    # The first of a turn passes its task on: it began before its turn was over.
    assert max(Counter(map(id, tasks)).values()) <= 2


async def test_a_handler_that_waits_has_a_task_of_its_own(app: App) -> None:
    tasks: list[asyncio.Task[Any]] = []

    @app.task
    async def waiting() -> None:
        await asyncio.sleep(0)
        tasks.append(task_of_mine())

    waiting.submit_many([()] * JOBS)
    await drain(app, concurrency=JOBS)
    assert len(set(map(id, tasks))) == JOBS


async def test_what_one_handler_does_to_its_task_does_not_reach_the_next(app: App) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen: list[str] = []

    @app.task(retry=ONCE)
    async def rude(x: int) -> None:
        seen.append(variable.get())
        if x % 3 == 0:
            variable.set("dirty")
        elif x % 3 == 1:
            task_of_mine().cancel()
        else:
            await asyncio.sleep(0)

    jobs = rude.submit_many(range(JOBS))
    await drain(app, concurrency=JOBS)
    assert seen == ["clean"] * JOBS
    assert all(job.result(0) is None for job in jobs)


@pytest.mark.parametrize("ending", ["returns", "raises", "waits"])
async def test_the_rest_of_a_coroutine_gets_its_cancellation(ending: str) -> None:
    forever = asyncio.get_running_loop().create_future()

    async def handler() -> str:
        try:
            await forever
        except asyncio.CancelledError:
            if ending == "raises":
                raise
            if ending == "waits":
                await asyncio.sleep(0)
        return ending

    async def stepped() -> Any:
        coroutine = handler()
        return await rest_of(coroutine, coroutine.send(None))

    task = asyncio.create_task(stepped())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=LONG)
    assert task.cancelled() if ending == "raises" else task.result() == ending
