"""How the tests of the worker run one, and wait without guessing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Any, TypeVar

from fencepost import App, Job, JobCancelledError, JobFailedError, JobHandle
from fencepost.worker.run.executor import HandlerExecutor
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.shutdown import Shutdown
from fencepost.worker.starts import NoRecord
from fencepost.worker.worker import Worker

LONG = 30.0
"""Seconds before a test gives up; one that passes never waits so long."""

T = TypeVar("T")


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker on this loop for as long as the block lasts."""
    worker = app.worker(**{"grace": 5.0, **options})
    running = asyncio.create_task(worker.aio.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, LONG)


@contextmanager
def working_in_thread(app: App, **options: Any) -> Iterator[Worker]:
    """Run a worker on a loop of its own in a thread, for as long as the block lasts."""
    worker = app.worker(**{"grace": 5.0, **options})
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(LONG)
        assert not thread.is_alive(), "the worker has not stopped"


def executor_of(app: App, slots: WorkerSlots, inflight: InFlight) -> HandlerExecutor:
    """Return what starts and stops an app's attempts, without the rest of a worker."""
    return HandlerExecutor(
        app.worker()._settings,
        slots=slots,
        settler=Settler(app.store, inflight, app.session.counters, slots),
        starts=NoRecord(),
        shutdown=Shutdown("w", is_replaceable=False),
        shared=None,
        owns_loop=False,
    )


async def drain(app: App, **options: Any) -> None:
    """Run a worker until nothing is claimable."""
    await asyncio.wait_for(app.worker(**options).aio.run(until_idle=True), LONG)


async def ended(job: JobHandle[Any]) -> Job:
    """Wait for the job's end, whatever it is, and return the job."""
    with suppress(JobFailedError, JobCancelledError):
        await job.aio.result(LONG)
    return job.refresh()


async def eventually(look: Callable[[], T | None], what: str = "it") -> T:
    """Look again and again, the loop running meanwhile, until there is something; return it."""
    deadline = time.monotonic() + LONG
    while not (found := look()):
        assert time.monotonic() < deadline, f"still not: {what}"
        await asyncio.sleep(0.005)
    return found


def eventually_sync(look: Callable[[], T | None], what: str = "it") -> T:
    """As ``eventually``, blocking."""
    deadline = time.monotonic() + LONG
    while not (found := look()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.005)
    return found


def take_leases_away(app: App) -> None:
    """Put every running job of a SQLite store into somebody else's hands."""
    path = app.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        connection.execute(
            "update jobs set lease_token = 'another', lease_version = lease_version + 1,"
            " worker = 'somebody' where state = 3"
        )
