"""Which jobs a worker takes, in which order, and how many at once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from contextlib import ExitStack, closing

import pytest
from tests.worker.support import LONG, drain, eventually, working, working_in_thread

from fencepost import App, ConfigurationError, InvalidJobError, NewJob, Priority, State


async def test_equal_jobs_run_in_the_order_of_their_submission(app: App) -> None:
    """S0-7, S1-34."""
    order: list[int] = []

    @app.task
    async def work(x: int) -> None:
        order.append(x)

    for x in range(5):
        work.submit(x)
    work.submit_many(range(5, 30))
    await drain(app, concurrency=1)
    assert order == list(range(30))


async def test_more_urgent_jobs_run_first_and_interrupt_nobody(app: App) -> None:
    """S0-9, S0-17, S1-33, S1-35, S1-36, C12, C13."""
    order: list[str] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(name: str) -> None:
        order.append(name)
        started.set()
        await go_on.wait()

    work.using(priority=Priority.BULK).submit("bulk, running")
    async with working(app, concurrency=1):
        await started.wait()
        for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL):
            work.using(priority=priority).submit(priority.name)
        go_on.set()
        await eventually(lambda: len(order) == 5)
    assert order == ["bulk, running", "CRITICAL", "HIGH", "NORMAL", "LOW"]


async def test_a_worker_gets_no_job_of_a_queue_it_is_not_bound_to(app: App) -> None:
    """S0-8."""

    @app.task
    async def work() -> None: ...

    mine, other = work.using(queue="a").submit(), work.using(queue="b").submit()
    await drain(app, queues=["a"])
    assert (mine.refresh().state, other.refresh().state) == (State.COMPLETED, State.SCHEDULED)
    assert [reason.code for reason in other.why()] == ["no_worker"]


async def test_queues_are_drawn_by_weight_and_short_ones_are_filled_up(app: App) -> None:
    """S4-3, C14: three to one while both have jobs, all of the other afterwards."""
    order: list[str] = []

    @app.task
    async def work(queue: str) -> None:
        order.append(queue)

    work.using(queue="bulk").submit_many(["bulk"] * 40)
    work.using(queue="mail").submit_many(["mail"] * 30)
    await drain(app, queues={"mail": 3, "bulk": 1}, concurrency=1)
    assert Counter(order[:40]) == {"mail": 30, "bulk": 10}
    assert order[40:] == ["bulk"] * 30
    for start in range(0, 40, 4):
        assert Counter(order[start : start + 4]) == {"mail": 3, "bulk": 1}


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_no_more_handlers_run_at_once_than_there_are_slots(app: App, kind: str) -> None:
    """S2-38: and no fewer, while there are jobs."""
    running, peaks, mutex = [0], [0], threading.Lock()

    def enter() -> None:
        with mutex:
            running[0] += 1
            peaks.append(running[0])

    def leave() -> None:
        with mutex:
            running[0] -= 1

    async def on_loop(x: int) -> None:
        enter()
        await asyncio.sleep(0.005)
        leave()

    def in_thread(x: int) -> None:
        enter()
        threading.Event().wait(0.005)
        leave()

    task = app.task(name="work")(on_loop if kind == "async" else in_thread)
    task.submit_many(range(40))
    await drain(app, concurrency=5)
    assert max(peaks) == 5
    assert app.jobs.count(state="completed") == 40


@pytest.mark.parametrize("scope", ["app", "queue"])
def test_w_is_never_exceeded_over_four_workers(sqlite_app: App, scope: str) -> None:
    """S2-17, S2-38, C32: W = 3, sixteen slots, jobs that overlap."""
    running, peaks, mutex = [0], [0], threading.Lock()

    @sqlite_app.task(queue="narrow")
    def work(x: int) -> None:
        with mutex:
            running[0] += 1
            peaks.append(running[0])
        threading.Event().wait(0.01)
        with mutex:
            running[0] -= 1

    if scope == "app":
        sqlite_app.limit(max_running=3)
    else:
        sqlite_app.queues.limit("narrow", max_running=3)
    jobs = work.submit_many(range(60))
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(working_in_thread(sqlite_app, concurrency=4))
        for job in jobs:
            job.result(LONG)
    assert max(peaks) == 3


async def test_a_job_of_an_unknown_type_waits_and_why_says_so(app: App) -> None:
    """S1-87: it fails on no old worker, and holds up nobody."""

    @app.task
    async def known() -> str:
        return "ran"

    [reply] = app.store.run(app.store.queue.enqueue([NewJob(type="unknown")]))
    job = known.submit()
    async with working(app):
        assert await job.aio.result(LONG) == "ran"
        found = app.jobs.get(reply.job_id)
        assert found.state is State.SCHEDULED
        [reason] = found.why()
    assert reason.code == "no_worker"
    assert "'unknown'" in reason.text
    assert found.refresh().attempt == 0


async def test_a_paused_type_is_not_dispatched_and_resumes_in_order(app: App) -> None:
    """S3-19, S3-21: its jobs keep their places and their attempts; others run."""
    order: list[int] = []

    @app.task
    async def work(x: int) -> None:
        order.append(x)

    @app.task
    async def other() -> None: ...

    work.pause()
    jobs = work.submit_many(range(5))
    other.submit()
    await drain(app, concurrency=1)
    assert order == []
    assert app.jobs.count(type="other", state="completed") == 1
    assert [reason.code for reason in jobs[0].why()] == ["type_paused", "no_worker"]
    work.resume()
    await drain(app, concurrency=1)
    assert order == [0, 1, 2, 3, 4]
    assert {job.refresh().attempt for job in jobs} == {1}


async def test_a_delayed_job_runs_when_it_is_due(app: App) -> None:
    """S1-14, S1-22, S2-25, S3-4: promptly, though nothing rings for it."""

    @app.task
    async def work() -> None: ...

    job = work.using(delay=0.3).submit()
    assert job.state is State.DELAYED
    async with working(app):
        await job.aio.result(LONG)
    found = job.refresh()
    assert found.started_at is not None
    assert 0 <= (found.started_at - found.run_at).total_seconds() < 0.5


@pytest.mark.parametrize(
    "damage",
    [
        "update jobs set tags = '{' where lane = (select lane from lanes where type = 'victim')",
        "update policies set body = 'garbage' where policy in (select policy from jobs join lanes"
        " using (lane) where type = 'victim')",
        "update jobs set payload_encoding = 99 where lane ="
        " (select lane from lanes where type = 'victim')",
        "update jobs set payload = x'ff00ff' where lane ="
        " (select lane from lanes where type = 'victim')",
    ],
    ids=["tags", "policy", "encoding", "payload"],
)
async def test_a_corrupt_row_fails_that_job_and_the_worker_lives(
    sqlite_app: App, damage: str
) -> None:
    """S1-87: one damaged job must not stop the others behind it."""
    ran = []

    @sqlite_app.task(timeout=77)
    async def victim(x: int) -> None:
        ran.append(x)

    @sqlite_app.task
    async def bystander(x: int) -> int:
        return x

    broken = victim.submit(1)
    others = bystander.submit_many(range(5))
    path = sqlite_app.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(damage).rowcount == 1
    with App(sqlite_app.url) as fresh:
        fresh.task(timeout=77)(victim.__wrapped__)
        fresh.task(bystander.__wrapped__)
        await drain(fresh)
        assert [fresh.jobs.get(job.id).result(0) for job in others] == list(range(5))
        assert fresh.jobs.count(type="victim", state="failed") == 1
        assert fresh.dead_letters.list(type="victim").letters[0].job_id == broken.id
    assert ran == []


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 10_001},
        {"concurrency": "4"},
        {"concurrency": 1.5},
        {"prefetch": -1},
        {"prefetch": 1},
        {"prefetch": "many"},
        {"queues": []},
        {"queues": "mail"},
        {"queues": {"mail": 0}},
        {"grace": -1},
        {"grace": "soon"},
        {"lease_ttl": 0.5},
        {"lease_ttl": -1},
    ],
    ids=str,
)
def test_a_worker_with_absurd_settings_is_refused(app: App, options: dict[str, object]) -> None:
    """C3: any lease of a second or more is allowed, nothing below."""
    with pytest.raises((ConfigurationError, InvalidJobError)):
        app.worker(**options)  # type: ignore[arg-type]  # that is the point
