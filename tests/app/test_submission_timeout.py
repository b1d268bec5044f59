"""A submission is acknowledged within its timeout, or its caller is told (S1-40).

A store that does not answer is one whose lock another process holds. That a caller gave up early is
seen beside one that waits for longer: the order tells, not a stopwatch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost import App, StoreUnavailableError, SubmissionTimeoutError, Timeouts
from fencepost.actions.group_commit import Submitter
from fencepost.core.bounds import SUBMISSION_TIMEOUT_DEFAULT
from fencepost.core.job.job import NewJob
from fencepost.platform.locks import wait_for_lock
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from lab.simulation.clock import SimulatedClock
from lab.simulation.history import History
from lab.simulation.loop import SimulatedLoop
from lab.simulation.process import Process
from lab.simulation.scheduler import Scheduler

SOON = 0.3
LATER = 9.0
"""Seconds; less than the ten for which a blocking call waits at most."""


@contextmanager
def sqlite_held(path: Path) -> Iterator[None]:
    """Hold the lock that every writer needs, as another process would."""
    with open(f"{path}-lock", "r+b") as lock:
        wait_for_lock(lock.fileno())
        yield


def task_of(app: App) -> Any:
    @app.task(name="work")
    def work(x: int) -> None: ...

    return work


class Waiting(threading.Thread):
    """Somebody who submits, and waits for as long as it takes."""

    def __init__(self, app: App) -> None:
        super().__init__(daemon=True)
        self._work = task_of(app)
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._work.submit(0)
        except StoreUnavailableError as error:
            self.error = error


def test_a_blocking_submission_waits_no_longer_than_its_timeout(path: Path) -> None:
    """S1-40: and the job is surely not stored; somebody more patient waits on."""
    url = f"sqlite:///{path}"
    with (
        App(url, timeouts=Timeouts(submission=SOON)) as app,
        App(url, timeouts=Timeouts(submission=LATER)) as other,
    ):
        work = task_of(app)
        assert app.jobs.count() == other.jobs.count() == 0
        patient = Waiting(other)
        with sqlite_held(path):
            patient.start()
            # Twice: two that wait as long as the patient one are surely later than that one.
            for _ in range(2):
                with pytest.raises(StoreUnavailableError):
                    work.submit(1)
            assert patient.is_alive(), "it gave up no sooner than a caller that waits for 9 s"
        patient.join(30)
        assert patient.error is None
        assert [job.payload_body.data for job in app.jobs.find()] == [b'{"x":0}']


async def test_an_awaited_submission_waits_no_longer_than_its_timeout(postgres_url: str) -> None:
    """S1-40, C38: unknown, and the same key makes a repeat safe, whatever became of the first."""
    with App(postgres_url, timeouts=Timeouts(submission=SOON)) as app, App(postgres_url) as other:
        app.migrate()
        work, patient = task_of(app).using(key="k"), task_of(other).using(key="other")
        await patient.aio.submit(0)
        with psycopg.connect(postgres_url) as admin:
            admin.execute("lock table fencepost.submissions in exclusive mode")
            waiting = asyncio.create_task(patient.using(key="another").aio.submit(0))
            await asyncio.sleep(0)
            with pytest.raises(SubmissionTimeoutError, match=r"within 0\.3 s"):
                await work.aio.submit(1)
            assert not waiting.done()
        await waiting
        repeated = await task_of(App(postgres_url)).using(key="k").aio.submit(1)
        assert [job.id for job in app.jobs.find(type="work") if job.key == "k"] == [repeated.id]


class Silent(MemoryStore):
    """A store that is asked and never answers."""

    async def run_async(self, operation: Operation[Any]) -> Any:
        await asyncio.get_running_loop().create_future()


def test_the_default_is_half_a_minute() -> None:
    """S1-40: in simulated time, to the second."""
    told: list[tuple[str, float]] = []

    async def submit(submitter: Submitter) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            await submitter.submit(NewJob(type="work"))
        except SubmissionTimeoutError as error:
            told.append((error.code, loop.time() - start))

    scheduler = Scheduler(0)
    outside = SimulatedLoop(scheduler)
    clock = SimulatedClock(scheduler, "caller")
    submitter = Submitter(Silent(clock=clock), Timeouts().submission)
    Process("caller", outside, clock, History()).start(submit(submitter))

    def finish() -> None:
        scheduler.is_over = True

    outside.call_later(2 * SUBMISSION_TIMEOUT_DEFAULT, finish)
    scheduler.run()
    [(code, seconds)] = told
    assert code == "submission_timeout"
    assert round(seconds, 1) == 30.0
