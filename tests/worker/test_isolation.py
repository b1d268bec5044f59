"""``isolation="process"``: a child that can be killed, whose end is its job's failure alone."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.worker import isolated
from tests.worker.crew import is_running
from tests.worker.support import (
    LONG,
    drain,
    ended,
    eventually,
    eventually_sync,
    executor_of,
    take_leases_away,
    working,
    working_in_thread,
)

from fencepost import (
    App,
    Category,
    ConfigurationError,
    InvalidJobError,
    JobHandle,
    Retry,
    State,
    Timeouts,
)
from fencepost.store.interface.queue import ClaimRequest
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots

ONCE = Retry.none()


async def child_pid(path: Path) -> int:
    """Return who ``isolated.hang`` says it is."""
    await eventually(lambda: path.exists() and path.read_text(), "the child's pid")
    return int(path.read_text())


def failure(job: JobHandle[Any]) -> tuple[State, Category, str | None]:
    found = job.refresh()
    assert found.failure is not None
    return found.state, found.failure.category, found.failure.code


async def test_a_child_runs_jobs_and_is_reused(sqlite_app: App) -> None:
    task = sqlite_app.task(isolation="process")(isolated.pid_of)
    jobs = task.submit_many(range(5))
    await drain(sqlite_app, concurrency=1)
    pids = {job.result(0) for job in jobs}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert sqlite_app.session.counters.get("child.started") == 1
    assert sqlite_app.session.counters.get("child.died") == 0
    assert not is_running(pids.pop()), "it ends with its worker"


async def test_a_child_runs_async_handlers_and_large_and_binary_payloads(sqlite_app: App) -> None:
    """S1-90: also a payload larger than a pipe holds, in both directions."""
    double = sqlite_app.task(isolation="process")(isolated.double)
    length = sqlite_app.task(isolation="process")(isolated.length)
    echo = sqlite_app.task(isolation="process")(isolated.echo)
    large = "x" * 900_000
    jobs = double.submit(21), length.submit(b"\x00" * 900_000), echo.submit(large)
    await drain(sqlite_app, concurrency=1)
    assert [job.result(0) for job in jobs] == [42, 900_000, large]


async def test_a_child_is_told_of_the_event(sqlite_app: App) -> None:
    sqlite_app.event("user.*").on(isolation="process")(isolated.told_of)
    sent = sqlite_app.event("user.created").send(user_id=7)
    await drain(sqlite_app)
    assert sent.jobs[0].result(0) == [7, "user.created", sent.id]


@pytest.mark.parametrize(
    ("kind", "state", "category"),
    [
        ("temporary", State.RETRYING, Category.TEMPORARY),
        ("permanent", State.FAILED, Category.PERMANENT),
        ("other", State.RETRYING, Category.TEMPORARY),
        ("exit", State.RETRYING, Category.TEMPORARY),
        ("snooze", State.DELAYED, None),
    ],
)
async def test_what_a_child_raises_is_classified_as_anywhere(
    tmp_path: Path, kind: str, state: State, category: Category | None
) -> None:
    """S1-80, S1-88, S1-89."""
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(initial_delay=3600)) as app:
        job = app.task(isolation="process")(isolated.fail).submit(kind)
        await drain(app)
        found = job.refresh()
    assert found.state is state
    assert (found.failure and found.failure.category) is category


@pytest.mark.parametrize(("how", "says"), [("exit", "code 3"), ("segfault", "signal 11")])
async def test_a_child_that_dies_is_a_system_failure(sqlite_app: App, how: str, says: str) -> None:
    """S1-80, S1-85: the worker and its other jobs do not notice."""
    die = sqlite_app.task(isolation="process", retry=ONCE)(isolated.die)
    double = sqlite_app.task(isolation="process")(isolated.double)
    job, next_job = die.submit(how), double.submit(1)
    await drain(sqlite_app, concurrency=1)
    assert failure(job) == (State.DEAD_LETTER, Category.SYSTEM, "process_died")
    assert says in str(job.refresh().failure)
    assert next_job.result(0) == 2
    assert sqlite_app.session.counters.get("child.died") == 1


async def test_retry_of_a_dead_child_can_be_switched_off(sqlite_app: App) -> None:
    """S1-85."""
    retry = Retry(max_attempts=5, on_system=False)
    job = sqlite_app.task(isolation="process", retry=retry)(isolated.die).submit("exit")
    await drain(sqlite_app)
    assert failure(job) == (State.FAILED, Category.SYSTEM, "process_died")
    assert job.refresh().attempt == 1


async def test_a_child_is_killed_at_its_timeout(sqlite_app: App, tmp_path: Path) -> None:
    """S0-92, S1-42, S4-21, S4-28: hard, though heartbeats went on."""
    path = tmp_path / "pid"
    warm_up = sqlite_app.task(isolation="process")(isolated.pid_of)
    hang = sqlite_app.task(isolation="process", timeout=1.0, retry=ONCE)(isolated.hang)
    async with working(sqlite_app, lease_ttl=2, concurrency=1):
        child = await warm_up.aio.wait(1, timeout=LONG)  # a child is slow to start, not to run
        job = hang.submit(str(path))
        assert await child_pid(path) == child
        await ended(job)
        await eventually(lambda: not is_running(child), "the child's end")
    assert failure(job) == (State.DEAD_LETTER, Category.TIMEOUT, "execution_timeout")
    counters = sqlite_app.session.counters
    assert counters.get("slot.leaked") == counters.get("slot.regained") == 0


async def test_a_child_is_killed_when_its_job_is_cancelled(sqlite_app: App, tmp_path: Path) -> None:
    """S3-9, C20."""
    path = tmp_path / "pid"
    job = sqlite_app.task(isolation="process")(isolated.hang).submit(str(path))
    async with working(sqlite_app, lease_ttl=2):
        child = await child_pid(path)
        job.cancel()
        await eventually(lambda: not is_running(child), "the child's end")
    assert job.refresh().state is State.CANCELLED


async def test_a_child_is_killed_when_its_lease_is_lost(sqlite_app: App, tmp_path: Path) -> None:
    """S2-9, S2-35: and nothing is written of its attempt."""
    path = tmp_path / "pid"
    job = sqlite_app.task(isolation="process")(isolated.hang).submit(str(path))
    async with working(sqlite_app, lease_ttl=2):
        child = await child_pid(path)
        take_leases_away(sqlite_app)
        before = job.attempts()
        await eventually(lambda: not is_running(child), "the child's end")
        assert job.attempts() == before


async def test_a_child_that_was_killed_from_outside_is_a_system_failure(
    sqlite_app: App, tmp_path: Path
) -> None:
    """S1-85: by the kernel for its memory, say."""
    path = tmp_path / "pid"
    job = sqlite_app.task(isolation="process", retry=ONCE)(isolated.hang).submit(str(path))
    async with working(sqlite_app):
        os.kill(await child_pid(path), signal.SIGKILL)
        await ended(job)
    assert failure(job) == (State.DEAD_LETTER, Category.SYSTEM, "process_died")


async def test_a_stopping_worker_kills_the_child_and_releases_its_job(
    sqlite_app: App, tmp_path: Path
) -> None:
    """C23."""
    path = tmp_path / "pid"
    job = sqlite_app.task(isolation="process")(isolated.hang).submit(str(path))
    async with working(sqlite_app, grace=0.1):
        child = await child_pid(path)
    assert not is_running(child)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.SCHEDULED, 0)


async def test_a_checkpoint_saved_in_a_child_is_read_by_the_next_attempt(sqlite_app: App) -> None:
    """S1-58, S1-78: though the child died right after."""
    job = sqlite_app.task(isolation="process")(isolated.resume).submit()
    async with working(sqlite_app):
        assert await job.aio.result(20) == [{"page": 7}, 2, True]


async def test_an_idle_child_that_died_is_replaced(sqlite_app: App) -> None:
    task = sqlite_app.task(isolation="process")(isolated.pid_of)
    async with working(sqlite_app, concurrency=1):
        first = await task.aio.wait(1, timeout=20)
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: not is_running(first))
        second = await task.aio.wait(2, timeout=20)
    assert first != second
    assert sqlite_app.jobs.count(state="completed") == 2


def test_the_loop_goes_on_while_a_large_payload_waits_for_its_child(sqlite_app: App) -> None:
    """A child may be slow to read, and a pipe holds little; that must not hold up other jobs."""
    echo = sqlite_app.task(isolation="process")(isolated.pid_of)
    length = sqlite_app.task(isolation="process")(isolated.length)

    @sqlite_app.task
    async def beside() -> str:
        return "done"

    with working_in_thread(sqlite_app, concurrency=2):
        child = echo.wait(1, timeout=LONG)
        os.kill(child, signal.SIGSTOP)
        large = length.submit(b"\x00" * 900_000)
        eventually_sync(lambda: large.refresh().state is State.RUNNING)
        assert beside.wait(timeout=LONG) == "done"
        os.kill(child, signal.SIGCONT)
        assert large.result(LONG) == 900_000
    assert sqlite_app.session.counters.get("child.started") == 1


async def test_a_job_lost_before_its_child_is_there_starts_no_child(sqlite_app: App) -> None:
    """S3-10: there would be nobody to kill."""
    task = sqlite_app.task(isolation="process")(isolated.pid_of)
    task.submit(1)
    store = sqlite_app.store
    jobs = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    inflight = InFlight()
    taken, _ = inflight.take(jobs, asked_at=0.0, answered_at=math.inf)
    slots = WorkerSlots(1, inflight)
    executor_of(sqlite_app, slots, inflight).take(taken)
    [attempt] = slots.running.values()
    attempt.interrupt("cancelled")
    assert attempt.has_ended
    await eventually(lambda: slots.taken == 0)
    assert sqlite_app.session.counters.get("child.started") == 0


def test_a_handler_that_a_child_could_not_import_is_refused(sqlite_app: App) -> None:
    def local() -> None: ...

    with pytest.raises(ConfigurationError, match="module level"):
        sqlite_app.task(isolation="process")(local)


def test_timeouts_of_the_app_bound_those_of_tasks(tmp_path: Path) -> None:
    """S1-45."""
    app = App(f"sqlite:///{tmp_path}/jobs.db", timeouts=Timeouts(execution=10))
    with pytest.raises(InvalidJobError, match="longer than the app's"):
        app.task(isolation="process", timeout=11)(isolated.double)
