"""The side-car lock: ``<db>-lock``, held around every write transaction of every process.

SQLite's own busy handler sleeps and starves: of four processes, one got a single transaction
through while another got nine thousand. ``flock`` queues in the kernel, in order. It also keeps a
checkpoint from overlapping another process's commit, which SQLite before 3.51.3 can turn into
corruption; hence every commit, checkpoint and close happens under it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from queue import SimpleQueue

from fencepost.errors import StoreUnavailableError


class SidecarLock:
    """An exclusive lock between processes; within one, the caller holds a mutex around it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._waiter: threading.Thread | None = None
        _open_locks.add(self)

    def acquire(self, timeout: float) -> None:
        """Take the lock, or raise StoreUnavailableError after *timeout* seconds."""
        if self._try():
            return
        # flock has no timeout, and polling loses against those who queue: a thread of ours queues
        # for us, and we wait for it for as long as we may.
        request = _Request()
        self._requests.put(request)
        self._start_waiter()
        if not request.is_granted_within(timeout):
            raise StoreUnavailableError(
                f"the database has been locked by another process for {timeout:g} s; "
                f"is one of its processes stopped in the middle of a write?"
            )

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._waiter is not None:
            self._requests.put(None)
        self.forget()

    def forget(self) -> None:
        """Close the descriptor; in a forked child it would keep the parent's lock alive."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _start_waiter(self) -> None:
        if self._waiter is None:
            self._waiter = threading.Thread(
                target=self._queue_for_callers, name="fencepost-sqlite-lock", daemon=True
            )
            self._waiter.start()

    def _queue_for_callers(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            except OSError:
                return  # closed under us; nobody waits any more
            if not request.grant():
                fcntl.flock(self._fd, fcntl.LOCK_UN)


class _Request:
    """One caller's wish for the lock, which it may give up."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._granted = threading.Event()
        self._is_abandoned = False

    def is_granted_within(self, timeout: float) -> bool:
        if self._granted.wait(timeout):
            return True
        with self._mutex:
            self._is_abandoned = not self._granted.is_set()
            return not self._is_abandoned

    def grant(self) -> bool:
        with self._mutex:
            if not self._is_abandoned:
                self._granted.set()
            return not self._is_abandoned


_open_locks: weakref.WeakSet[SidecarLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lock in list(_open_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
