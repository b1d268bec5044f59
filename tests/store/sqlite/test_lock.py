"""The side-car lock. SQLite-specific: other engines have a server that queues writers."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fencepost.core.job.job import NewJob
from fencepost.errors import ForkedStoreError, StoreUnavailableError
from fencepost.platform.locks import try_lock, unlock, wait_for_lock
from fencepost.store.sqlite.engine.lock import SidecarLock
from fencepost.store.sqlite.store import SqliteStore


def hold(path: str) -> int:
    """Take the side-car lock as another process would, through a descriptor of our own."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    wait_for_lock(fd)
    return fd


def test_two_locks_on_one_file_exclude_each_other(tmp_path: Path) -> None:
    """S2-24."""
    first, second = (SidecarLock(str(tmp_path / "l")) for _ in range(2))
    first.acquire(1)
    with pytest.raises(StoreUnavailableError, match="locked by another process"):
        second.acquire(0.05)
    first.release()
    second.acquire(1)
    second.release()
    first.close()
    second.close()


def test_a_waiter_is_granted_the_lock_when_it_is_released(tmp_path: Path) -> None:
    fd = hold(str(tmp_path / "l"))
    lock = SidecarLock(str(tmp_path / "l"))
    granted = threading.Event()

    def wait() -> None:
        lock.acquire(10)
        granted.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not granted.is_set()
    unlock(fd)
    assert granted.wait(10)
    thread.join()
    lock.release()
    lock.close()
    os.close(fd)


def test_a_lock_that_was_given_up_on_does_not_stay_taken(tmp_path: Path) -> None:
    """The thread that queued for a caller who left must pass the lock on, not keep it."""
    fd = hold(str(tmp_path / "l"))
    impatient, next_one = (SidecarLock(str(tmp_path / "l")) for _ in range(2))
    with pytest.raises(StoreUnavailableError):
        impatient.acquire(0.05)
    os.close(fd)
    next_one.acquire(10)
    next_one.release()
    impatient.acquire(10)
    impatient.release()
    impatient.close()
    next_one.close()


def test_a_caller_that_left_cannot_unlock_the_next_one(tmp_path: Path) -> None:
    """The thread that queued for the one who left gives back its own lock, not the present one.

    With one descriptor for both, the next caller ran its transaction unlocked.
    """
    lock, other = (SidecarLock(str(tmp_path / "l")) for _ in range(2))
    for _ in range(20):
        fd = hold(str(tmp_path / "l"))
        with pytest.raises(StoreUnavailableError):
            lock.acquire(0.001)
        os.close(fd)
        lock.acquire(10)
        with pytest.raises(StoreUnavailableError):
            other.acquire(0.005)
        lock.release()
        other.acquire(10)
        other.release()
    lock.close()
    other.close()


def test_a_store_behind_a_held_lock_is_unavailable_and_stores_nothing(path: str) -> None:
    """S0-55: 'locked' is surely not done; afterwards everything goes on."""
    store = SqliteStore(path, patience=0.05)
    fd = hold(f"{path}-lock")
    with pytest.raises(StoreUnavailableError):
        store.run(store.queue.enqueue([NewJob(type="t")]))
    os.close(fd)
    assert [view.counts for view in store.run(store.overview.types())] == []
    assert len(store.run(store.queue.enqueue([NewJob(type="t")]))) == 1
    store.close()


def test_a_forked_child_neither_uses_the_store_nor_keeps_its_lock(store: SqliteStore) -> None:
    """A child that kept the lock's descriptor would hold it after its parent's death."""
    descriptor = store._database._lock._fd
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.run(store.overview.queues())
        except ForkedStoreError:
            try:
                try_lock(descriptor)
            except OSError:  # the descriptor was closed at the fork
                code = 0
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.run(store.queue.enqueue([NewJob(type="t")]))


@contextmanager
def no_descriptor_free() -> Iterator[Callable[[int], None]]:
    """Leave this process no file descriptor: all are in use. What it yields frees that many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each) for each in os.listdir("/proc/self/fd"))
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

        def leave(count: int) -> None:
            for _ in range(count):
                os.close(taken.pop())

        yield leave
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_free_descriptor_a_caller_is_told_and_the_next_one_waits_again(
    tmp_path: Path,
) -> None:
    """The thread that queues outlives it: without it nobody could ever wait for the lock again."""
    fd = hold(str(tmp_path / "l"))
    lock = SidecarLock(str(tmp_path / "l"))
    with no_descriptor_free(), pytest.raises(StoreUnavailableError, match="file descriptor"):
        lock.acquire(10)
    granted = threading.Event()

    def wait() -> None:
        with suppress(StoreUnavailableError):
            lock.acquire(10)
            granted.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while thread.is_alive() and not lock._queued:
        granted.wait(0.01)
    assert lock._queued, "nobody stands in line for the caller"
    os.close(fd)
    assert granted.wait(10)
    thread.join()
    lock.release()
    lock.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_store_without_a_free_descriptor_is_unavailable_and_recovers(
    path: str, colour: str
) -> None:
    """S0-55: surely not done, and everything goes on when descriptors are free again."""
    store = SqliteStore(path)

    async def enqueue() -> object:
        return await store.run_async(store.queue.enqueue([NewJob(type="t")]))

    def submit() -> object:
        if colour == "async":
            return loop.run_until_complete(enqueue())
        return store.run(store.queue.enqueue([NewJob(type="t")]))

    loop = asyncio.new_event_loop()
    submit()
    fd = hold(f"{path}-lock")
    with no_descriptor_free(), pytest.raises(StoreUnavailableError, match="file descriptor"):
        submit()
    os.close(fd)
    submit()
    assert [sum(view.counts.values()) for view in store.run(store.overview.types())] == [2]
    loop.close()
    store.close()


def test_a_store_that_cannot_be_opened_for_want_of_descriptors_leaves_none_open(path: str) -> None:
    SqliteStore(path).close()
    before = len(os.listdir("/proc/self/fd"))
    for room in range(12):
        with no_descriptor_free() as leave:
            leave(room)
            with suppress(StoreUnavailableError):
                SqliteStore(path).close()
    assert len(os.listdir("/proc/self/fd")) == before
    store = SqliteStore(path)
    assert store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()
