"""Stores that are slow, locked, damaged, closed or forked: a clear error, and nothing lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.worker.support import drain

from fencepost import (
    App,
    ConfigurationError,
    StoreUnavailableError,
    SubmissionTimeoutError,
    Timeouts,
)
from fencepost.actions.group_commit import Submitter
from fencepost.core.job.job import NewJob
from fencepost.errors import ForkedStoreError, InvalidJobError
from fencepost.platform.locks import wait_for_lock
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.open import open_store
from fencepost.store.plan import Operation
from fencepost.store.sqlite.store import SqliteStore


@contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """Hold the lock that every writer needs, as another process would."""
    with open(f"{path}-lock", "r+b") as lock:
        wait_for_lock(lock.fileno())
        yield


async def test_concurrent_submits_share_commits(app: App) -> None:
    """S0-3: all 200 are stored, in far fewer operations."""

    @app.task
    async def work(x: int) -> int:
        return x

    handles = await asyncio.gather(*(work.aio.submit(x) for x in range(200)))
    assert len({handle.id for handle in handles}) == 200
    assert app.jobs.count(state="scheduled") == 200
    assert app.session.counters.get("store.operation", operation="enqueue") < 20
    await drain(app, concurrency=50)
    assert [await handle for handle in handles] == list(range(200))


async def test_submits_keep_their_order_through_the_shared_commits(app: App) -> None:
    """S0-7, S1-34."""
    order: list[int] = []

    @app.task
    async def work(x: int) -> None:
        order.append(x)

    await asyncio.gather(*(work.aio.submit(x) for x in range(100)))
    await drain(app, concurrency=1)
    assert order == list(range(100))


async def test_a_cancelled_caller_does_not_take_its_neighbours_along(app: App) -> None:
    """S0-3: a group commit that others share goes on."""

    @app.task
    async def work(x: int) -> None: ...

    tasks = [asyncio.create_task(work.aio.submit(x)) for x in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    replies = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(reply, asyncio.CancelledError) for reply in replies) == 1
    assert app.jobs.count() >= 9


def test_every_loop_has_its_own_gatherer(app: App) -> None:
    @app.task
    async def work(x: int) -> None: ...

    async def submit() -> None:
        await asyncio.gather(*(work.aio.submit(x) for x in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(submit(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(submit())
    assert app.jobs.count() == 100


async def test_an_error_of_the_store_reaches_every_caller_of_the_group() -> None:
    store = open_store("memory://")
    submitter = Submitter(store)
    store.close()
    replies = await asyncio.gather(
        *(submitter.submit(NewJob(type="t")) for _ in range(3)), return_exceptions=True
    )
    assert [type(reply) for reply in replies] == [StoreUnavailableError] * 3


async def test_jobs_that_are_due_wait_for_none_that_fall_due_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refusal splits its group, so a job that is due now must not be in it."""
    store = open_store("memory://")
    groups: list[set[bool]] = []
    enqueue = store.queue.enqueue

    def recorded(jobs: Sequence[NewJob]) -> Operation[list[EnqueueReply]]:
        groups.append({job.run_at is None for job in jobs})
        return enqueue(jobs)

    monkeypatch.setattr(store.queue, "enqueue", recorded)
    submitter = Submitter(store)
    late = NewJob(type="t", run_at=datetime.now(UTC) + timedelta(days=365))
    jobs = [late, NewJob(type="t"), late, NewJob(type="t")]
    replies = await asyncio.gather(*map(submitter.submit, jobs), return_exceptions=True)
    assert [isinstance(reply, InvalidJobError) for reply in replies] == [True, False, True, False]
    assert groups.count({True}) == 1
    assert {True, False} not in groups


async def test_a_submission_that_is_not_acknowledged_in_time_may_have_been_stored(
    path: Path,
) -> None:
    """S1-40, C38: the caller is told that it is unknown, and that the key makes a repeat safe."""
    store = SqliteStore(str(path), patience=30)
    timeouts = Timeouts(submission=0.2)
    with App(f"sqlite:///{path}", store=store, timeouts=timeouts) as app:

        @app.task
        async def work(x: int) -> None: ...

        keyed = work.using(key="k").aio
        with lock_of(path), pytest.raises(SubmissionTimeoutError) as caught:
            await keyed.submit(1)
        assert caught.value.code == "submission_timeout"
        assert "0.2 s" in str(caught.value)
        patient = App(f"sqlite:///{path}", store=store)
        again = await patient.task(work.__wrapped__).using(key="k").aio.submit(1)
        assert again.duplicate, "it had been stored when the lock was free"
        assert app.jobs.count() == 1


def test_a_locked_store_is_unavailable_and_the_job_is_surely_not_stored(path: Path) -> None:
    """C38: reading goes on meanwhile."""
    with App(f"sqlite:///{path}", timeouts=Timeouts(submission=0.2)) as app:

        @app.task
        def work(x: int) -> None: ...

        assert app.jobs.count() == 0
        with lock_of(path):
            with pytest.raises(StoreUnavailableError) as caught:
                work.submit(1)
            assert app.jobs.count() == 0, "reading needs no lock"
        assert caught.value.code == "store_unavailable"
        work.submit(2)
        assert app.jobs.count() == 1


def test_a_writer_that_is_only_slow_is_waited_for(path: Path) -> None:
    with App(f"sqlite:///{path}") as app:

        @app.task
        def work(x: int) -> None: ...

        work.submit(1)
        with lock_of(path):
            thread = threading.Thread(target=work.submit, args=(2,))
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()
        thread.join(10)
        assert app.jobs.count() == 2


def make_no_folder(path: Path) -> str:
    return str(path / "missing" / "jobs.db")


def make_file_for_folder(path: Path) -> str:
    (path / "file").write_text("")
    return str(path / "file" / "jobs.db")


def make_folder_for_file(path: Path) -> str:
    (path / "jobs.db").mkdir()
    return str(path / "jobs.db")


def make_garbage(path: Path) -> str:
    (path / "jobs.db").write_bytes(b"This is not a database. " * 200)
    return str(path / "jobs.db")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (make_no_folder, "store_unavailable"),
        (make_file_for_folder, "store_unavailable"),
        (make_folder_for_file, "foreign_file"),
        (make_garbage, "foreign_file"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_to_be_unavailable(
    tmp_path: Path, make: object, code: str
) -> None:
    """S0-56: and what is there is left as it was."""
    assert callable(make)
    target = make(tmp_path)
    before = Path(target).read_bytes() if Path(target).is_file() else None
    app = App(f"sqlite:///{target}")

    @app.task
    def work() -> None: ...

    with pytest.raises(StoreUnavailableError) as caught:
        work.submit()
    assert caught.value.code == code
    assert target in str(caught.value)
    if before is not None:
        assert Path(target).read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to what is read-only")
def test_a_read_only_database_is_unavailable_and_says_so(path: Path) -> None:
    with App(f"sqlite:///{path}") as app:
        app.jobs.count()
    for file in path.parent.glob("jobs.db*"):
        file.chmod(0o555 if file.is_dir() else 0o444)
    path.parent.chmod(0o555)
    try:
        with pytest.raises(StoreUnavailableError):
            App(f"sqlite:///{path}").jobs.count()
    finally:
        path.parent.chmod(0o755)


def test_a_closed_app_says_so(app: App) -> None:
    @app.task
    def work() -> None: ...

    work.submit()
    app.close()
    app.close()
    for ask in (work.submit, app.jobs.count, app.queues.list, app.worker):
        with pytest.raises(ConfigurationError, match="closed"):
            ask()


async def test_an_app_is_a_context_manager_in_both_faces(url: str) -> None:
    app = App(url)
    async with app.aio as face:
        assert await face.jobs.count() == 0
    with pytest.raises(ConfigurationError, match="closed"):
        await app.aio.jobs.count()
    other = App(url)
    await other.aio.close()
    with pytest.raises(ConfigurationError, match="closed"):
        other.jobs.count()


def test_making_an_app_touches_no_file(tmp_path: Path) -> None:
    """Importing a module that declares tasks does no work."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def work() -> None: ...

    assert list(tmp_path.iterdir()) == []


FORK = """
import os, sys
from fencepost import App
from fencepost.errors import ForkedStoreError, InvalidJobError

app = App(sys.argv[1])

@app.task
def work(x: int) -> None: ...

work.submit(1)
store = app.store
pid = os.fork()
if pid == 0:
    try:
        store.run(store.overview.queues())
    except ForkedStoreError as error:
        assert error.code == "forked_store"
    else:
        os._exit(3)
    if sys.argv[1].startswith("sqlite"):
        work.submit(2)
        assert app.jobs.count() == 2
        assert app.store is not store
    app.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
work.submit(3)
print(app.jobs.count())
app.close()
"""


def test_an_app_opens_its_store_anew_in_a_forked_child(url: str) -> None:
    """S0-3: a store object carried across fork() refuses; parent and child both go on."""
    run = subprocess.run(
        [sys.executable, "-c", FORK, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ("3" if url.startswith("sqlite") else "2")
    if url.startswith("sqlite"):
        with App(url) as app:
            assert app.jobs.count() == 3


def test_a_store_carried_across_fork_refuses(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_app.store
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ForkedStoreError):
        store.run(store.overview.queues())
