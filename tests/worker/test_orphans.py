"""What a dead worker of this machine held and had not started is released; what had, is counted.

With processes that are killed: ``test_crashes.py``. That every store finds what a worker holds:
``conformance/leases.py``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.worker import gated
from tests.worker.flaky import FlakyStore, Times, nothing, only
from tests.worker.support import LONG, drain, eventually, working

from fencepost import App, BatchJob, Retry, State
from fencepost.core.job.job import ClaimedJob
from fencepost.platform import disk
from fencepost.store.interface.queue import ClaimRequest, QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.worker import Worker, children, starts
from fencepost.worker.orphans import RECORDS_MAX, Orphans
from fencepost.worker.starts import StartRecord, records, turn_to_look


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers note their starts."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FENCEPOST_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=Retry.none()) as app:
        yield app


def noop() -> None: ...


def record_of(folder: Path, worker: str) -> StartRecord:
    return StartRecord(folder, worker, slots=4, lease_ttl=30.0, live=list)


def claim(app: App, worker: str, limit: int, lease_ttl: float = 30.0) -> list[ClaimedJob]:
    request = ClaimRequest(worker=worker, limit=limit, lease_ttl=lease_ttl)
    return list(app.store.run(app.store.queue.claim(request)).jobs)


def submit(app: App, count: int) -> None:
    app.task(name="noop")(noop).submit_many([()] * count)


def standing(app: App, jobs: list[ClaimedJob]) -> list[tuple[State, int]]:
    found = [app.jobs.get(job.id).refresh() for job in jobs]
    return [(job.state, job.attempt) for job in found]


async def test_what_had_not_started_is_released_and_what_had_is_left(
    app: App, folder: Path
) -> None:
    """C8, C41: also with a single attempt, which a release does not use up."""
    record = record_of(folder, "dead")
    submit(app, 3)
    jobs = claim(app, "dead", 3)
    assert record.add(jobs[1].lease.token)
    record.close(is_empty=False)
    assert await Orphans(app.store, folder).step() == 2
    left, running = (State.SCHEDULED, 0), (State.RUNNING, 1)
    assert standing(app, jobs) == [left, running, left]
    assert await Orphans(app.store, folder).step() == 0


async def test_a_job_whose_claim_was_never_answered_is_released(app: App, folder: Path) -> None:
    """C41: the worker died before it heard of it, or before the store had done it."""
    record_of(folder, "dead").close(is_empty=False)
    orphans = Orphans(app.store, folder)
    assert await orphans.step() == 0
    submit(app, 1)
    jobs = claim(app, "dead", 1)
    assert await orphans.step() == 1
    assert standing(app, jobs) == [(State.SCHEDULED, 0)]


async def test_a_living_worker_is_left_alone(app: App, folder: Path) -> None:
    """However long it takes to start what it has claimed: it may be suspended."""
    record = record_of(folder, "alive")
    submit(app, 1)
    jobs = claim(app, "alive", 1)
    assert await Orphans(app.store, folder).step() == 0
    assert standing(app, jobs) == [(State.RUNNING, 1)]
    record.close(is_empty=True)


async def test_nothing_is_released_under_a_name_without_a_record(app: App, folder: Path) -> None:
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "other", 1)
    assert await Orphans(app.store, folder).step() == 0
    assert standing(app, jobs) == [(State.RUNNING, 1)]


async def test_two_that_look_at_once_release_each_job_once(app: App, folder: Path) -> None:
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 20)
    jobs = claim(app, "dead", 20)
    counts = await asyncio.gather(*[Orphans(app.store, folder).step() for _ in range(4)])
    assert sum(counts) == 20
    assert standing(app, jobs) == [(State.SCHEDULED, 0)] * 20


async def test_a_store_that_is_away_is_asked_again(app: App, folder: Path) -> None:
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "dead", 1)
    store = FlakyStore(app.store)
    orphans = Orphans(cast(Store, store), folder)
    for method in (QueueFacet.held, QueueFacet.settle):
        store.is_away = Times(method, 1)
        assert await orphans.step() == 0
        assert store.count(method) == 1
        assert standing(app, jobs) == [(State.RUNNING, 1)]
    assert await orphans.step() == 1


class HangingStore(FlakyStore):
    """One that is asked, and does not answer."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.is_asked = asyncio.Event()

    async def run_async(self, operation: Operation[Any]) -> Any:
        self.is_asked.set()
        await asyncio.get_running_loop().create_future()


async def test_a_store_that_hangs_keeps_nobody_from_looking(app: App, folder: Path) -> None:
    """C41: workers of all stores of a machine share the folder, and one of them may be stopped."""
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "dead", 1)
    store = HangingStore(app.store)
    hanging = asyncio.create_task(Orphans(cast(Store, store), folder).step())
    await store.is_asked.wait()
    assert await Orphans(app.store, folder).step() == 1
    assert standing(app, jobs) == [(State.SCHEDULED, 0)]
    hanging.cancel()


async def test_a_release_whose_reply_was_lost_is_done_once(app: App, folder: Path) -> None:
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "dead", 1)
    store = FlakyStore(app.store)
    store.loses_reply = Times(QueueFacet.settle, 1)
    orphans = Orphans(cast(Store, store), folder)
    assert [await orphans.step(), await orphans.step()] == [0, 0]
    assert standing(app, jobs) == [(State.SCHEDULED, 0)]


async def test_what_had_not_started_is_uncounted_also_after_its_lease(
    app: App, folder: Path
) -> None:
    """C41: a worker that was away for longer recovers what nobody has recovered, and knows this."""
    record = record_of(folder, "dead")
    submit(app, 3)
    jobs = claim(app, "dead", 3, lease_ttl=1.0)
    assert record.add(jobs[1].lease.token)
    record.close(is_empty=False)
    ends = max(job.lease.expires_at for job in jobs)
    await eventually(lambda: app.store.clock.now() > ends)
    assert await Orphans(app.store, folder).step() == 2
    left, dead = (State.SCHEDULED, 0), (State.DEAD_LETTER, 1)
    assert standing(app, jobs) == [left, dead, left]


async def test_nothing_is_recovered_by_a_starting_worker_before_it_has_looked(
    app: App, folder: Path
) -> None:
    """C41: not even by the leader's chores, while the store answers no look or another is at it."""
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "dead", 1, lease_ttl=1.0)
    await eventually(lambda: app.store.clock.now() > jobs[0].lease.expires_at)
    store = FlakyStore(app.store)
    other = App(store=cast(Store, store), retry=Retry.none())
    other.task(name="noop")(noop)
    store.is_away = only(QueueFacet.held)
    async with working(other):
        await eventually(lambda: store.count(QueueFacet.held) > 1)
        with turn_to_look(folder) as is_ours:
            assert is_ours
            store.is_away = nothing
            assert standing(app, jobs) == [(State.RUNNING, 1)]
        await eventually(lambda: standing(app, jobs) == [(State.COMPLETED, 1)])


async def test_a_starting_worker_releases_before_it_claims(app: App, folder: Path) -> None:
    """A worker that is replaced after its death takes its jobs over at once."""
    record_of(folder, "dead").close(is_empty=False)
    submit(app, 2)
    jobs = claim(app, "dead", 2)
    await drain(app)
    assert standing(app, jobs) == [(State.COMPLETED, 1)] * 2


async def test_any_number_of_old_records_costs_little(
    app: App, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C42: the loop must not read a megabyte of each, every second; nor may descriptors run out."""
    for number in range(RECORDS_MAX + 2):
        record_of(folder, f"dead {number}").close(is_empty=False)
    submit(app, 1)
    jobs = claim(app, "dead 1", 1)
    sizes: list[int] = []

    def read(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return disk.read_at(fd, size, offset)

    monkeypatch.setattr(starts, "read_at", read)
    assert await Orphans(app.store, folder).step() == 1
    assert standing(app, jobs) == [(State.SCHEDULED, 0)]
    assert len([size for size in sizes if size > starts.HEADER]) == 1
    assert len(sizes) == RECORDS_MAX + 3


async def test_a_running_worker_looks_again_and_again(app: App, folder: Path) -> None:
    async with working(app, queues=["other"]):
        record_of(folder, "dead").close(is_empty=False)
        submit(app, 1)
        jobs = claim(app, "dead", 1)
        await eventually(lambda: standing(app, jobs) == [(State.SCHEDULED, 0)])


_on_record_when_read: list[bool] = []


class Order(msgspec.Struct):
    """An argument that says whether a start was on record while it was read."""

    number: int

    def __post_init__(self) -> None:
        found = records(Path(os.environ["FENCEPOST_RUNTIME_DIR"]))
        _on_record_when_read.extend(any(_started_part(path)) for path in found)


def ship(order: Order) -> None: ...


async def ship_async(order: Order) -> None: ...


def ship_together(jobs: list[BatchJob[Order]]) -> list[None]:
    return [None for _ in jobs]


@pytest.mark.parametrize("kind", ["coroutine", "thread", "batch"])
async def test_a_job_whose_arguments_are_being_read_has_not_started(
    app: App, folder: Path, kind: str
) -> None:
    """C41: a large payload, or those of a large batch, take a while."""
    match kind:
        case "coroutine":
            app.task(ship_async).submit(Order(1))
        case "thread":
            app.task(ship).submit(Order(1))
        case _:
            app.task(batch=2)(ship_together).submit_many([(Order(1),), (Order(2),)])
    _on_record_when_read.clear()
    async with working(app):
        await eventually(lambda: app.jobs.count(state=State.COMPLETED) == app.jobs.count())
    assert _on_record_when_read
    assert not any(_on_record_when_read)


@pytest.mark.parametrize("kind", ["coroutine", "thread", "batch"])
async def test_a_start_is_on_record_while_its_handler_runs(
    app: App, folder: Path, kind: str
) -> None:
    go_on = threading.Event()

    async def wait_async() -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.001)

    def wait() -> None:
        go_on.wait(LONG)

    def wait_together(jobs: list[BatchJob[int]]) -> list[None]:
        go_on.wait(LONG)
        return [None for _ in jobs]

    match kind:
        case "coroutine":
            app.task(wait_async).submit()
        case "thread":
            app.task(wait).submit()
        case _:
            app.task(batch=1)(wait_together).submit(1)
    async with working(app) as worker:
        (path,) = await eventually(lambda: records(folder))

        def is_on_record() -> bool:
            held = app.store.run(app.store.queue.held([worker.id]))
            return [each for each in held if each.token.encode() in _lines(path)] != []

        await eventually(is_on_record)
        go_on.set()
    assert records(folder) == []


async def test_an_isolated_handler_is_on_record_when_its_child_calls_it(
    app: App, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C41: a child takes a Python start-up, and and a worker that dies then has started none."""
    gate, door = tmp_path / "gate", tmp_path / "door"
    monkeypatch.setenv(gated.GATE, str(gate))
    monkeypatch.setenv(gated.DOOR, str(door))
    monkeypatch.setattr(children, "CHILD_START_MAX", 0.01)
    jobs = app.task(isolation="process")(gated.wait_at_door).submit_many([()] * 2)
    async with working(app) as worker:
        await eventually(lambda: worker._pipeline and len(worker._pipeline.slots.running) == 2)
        (path,) = records(folder)
        held = {each.token.encode() for each in app.store.run(app.store.queue.held([worker.id]))}
        assert len(held) == 2
        assert held.isdisjoint(_lines(path)), "the children are starting"
        gate.touch()
        await eventually(lambda: held.issubset(_lines(path)))
        assert {job.refresh().state for job in jobs} == {State.RUNNING}
        door.touch()
    assert {job.refresh().state for job in jobs} == {State.COMPLETED}


async def test_a_worker_with_a_given_name_or_a_store_in_memory_keeps_none(
    app: App, folder: Path
) -> None:
    """Another worker may have the name, too; and what is in memory dies with its process."""
    named = Worker(app.store, app.session.tasks, id="mine")
    running = asyncio.create_task(named.aio.run())
    await eventually(lambda: [each.id for each in app.workers.list()] == ["mine"])
    assert records(folder) == []
    named.stop()
    await running
    with App("memory://") as other:
        async with working(other):
            await eventually(lambda: other.workers.list() != [])
            assert records(folder) == []


async def test_a_second_run_of_a_worker_that_left_jobs_behind_has_another_name(
    app: App, folder: Path
) -> None:
    """C41: its jobs are not on the record of the first, and would be released while they run."""
    store = FlakyStore(app.store)
    other = App(store=cast(Store, store), retry=Retry.none())
    other.task(name="noop")(noop).submit()
    go_on = asyncio.Event()

    @other.task
    async def wait() -> None:
        await go_on.wait()

    worker = other.worker(grace=0.01)
    store.is_away = only(QueueFacet.settle)
    first = worker.id
    running = asyncio.create_task(worker.aio.run())
    await eventually(lambda: store.count(QueueFacet.settle))
    worker.stop()
    await running
    assert len(records(folder)) == 1
    store.is_away = nothing
    job = wait.submit()
    running = asyncio.create_task(worker.aio.run())
    await eventually(lambda: job.refresh().state is State.RUNNING)
    assert await Orphans(app.store, folder).step() == 0
    assert worker.id != first
    go_on.set()
    await eventually(lambda: job.refresh().state is State.COMPLETED)
    worker.stop()
    await running


def _started_part(path: Path) -> bytes:
    return path.read_bytes()[starts.HEADER :]


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().replace(b"\0", b"\n").splitlines()


async def test_a_worker_without_a_folder_works_and_logs_it(
    app: App, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.chmod(0o777)
    submit(app, 1)
    with caplog.at_level(logging.WARNING):
        await drain(app)
    assert app.jobs.count(state="completed") == 1
    assert [r.message for r in caplog.records if "starts.unrecorded" in r.message]
    assert records(folder) == []
