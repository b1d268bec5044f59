"""The side-car lock: ``<db>-lock``, held around every write transaction of every process.

SQLite's busy handler sleeps and starves: of four processes, one got a single transaction through
while another got nine thousand. This lock has a queue (``platform/locks``). It also keeps a
checkpoint from overlapping another process's commit, which can corrupt the file with SQLite before
3.51.3; so every commit, checkpoint and close happens under it.

The file also holds one byte for all processes: whether the disk failed to confirm a write.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from contextlib import suppress
from queue import SimpleQueue

from fencepost.errors import StoreUnavailableError
from fencepost.platform.disk import read_at, write_at
from fencepost.platform.locks import try_lock, unlock, wait_for_lock
from fencepost.platform.processes import after_fork
from fencepost.store.sqlite.engine.errors import NotBegunError
from fencepost.store.sqlite.engine.files import Access

CLEAN, MARKED = b".", b"!"


class SidecarLock:
    """An exclusive lock between processes; within one, the caller holds a mutex around it."""

    def __init__(self, path: str, access: Access | None = None) -> None:
        self._path = path
        self._access = access or Access()
        self._fd = self._access.open_file(path)
        self._held: int | None = None
        self._queued: set[int] = set()
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._waiter: threading.Thread | None = None
        self._is_marked = False
        _open_locks.add(self)

    def acquire(self, timeout: float) -> None:
        """Take the lock, or raise NotBegunError after *timeout* seconds."""
        if try_lock(self._fd):
            self._held = self._fd
            return
        # Waiting for a lock has no timeout: a separate thread queues, and the caller waits for it
        # until the timeout.
        self._start_waiter()
        request = _Request()
        self._requests.put(request)
        self._held = request.granted_within(timeout)
        if request.refusal is not None:
            raise self._unable(request.refusal) from request.refusal
        if self._held is None:
            raise NotBegunError(
                f"the database has been locked by another process for {timeout:g} s; "
                f"is one of its processes stopped in the middle of a write?"
            )

    def release(self) -> None:
        held, self._held = self._held, None
        assert held is not None, "release without acquire"
        if held == self._fd:
            unlock(held)
        else:
            self._discard(held)

    def prepare_mark(self) -> None:
        """Write the mark's byte, with the lock held and before any process can set it.

        Setting it later then needs no space, which a failing disk may not have.
        """
        with suppress(OSError):
            if not read_at(self._fd, 1, 0):
                write_at(self._fd, CLEAN, 0)

    def mark(self) -> None:
        """Mark for all processes that written data may not be on the disk."""
        self._is_marked = True  # remembered here in case the write fails
        with suppress(OSError):
            write_at(self._fd, MARKED, 0)

    def unmark(self) -> None:
        """Remove the mark, with the lock held; raises OSError."""
        write_at(self._fd, CLEAN, 0)
        self._is_marked = False

    @property
    def is_marked(self) -> bool:
        try:
            return self._is_marked or read_at(self._fd, 1, 0) == MARKED
        except OSError:
            return True  # unknown counts as marked

    def close(self) -> None:
        if self._waiter is not None:
            self._requests.put(None)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def forget(self) -> None:
        """Close every descriptor: in a forked child they would keep the parent's lock held."""
        for fd in [self._fd, *self._queued]:
            if fd >= 0:
                os.close(fd)
        self._fd = -1
        self._queued.clear()

    def _start_waiter(self) -> None:
        if self._waiter is not None:
            return
        waiter = threading.Thread(
            target=self._queue_for_callers, name="fencepost-sqlite-lock", daemon=True
        )
        try:
            waiter.start()
        except RuntimeError as error:
            raise self._unable(error) from error
        self._waiter = waiter

    def _queue_for_callers(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                fd = self._queue()
            except (OSError, StoreUnavailableError) as error:
                # Only this caller fails; the thread goes on for the next.
                request.refuse(error)
                continue
            if not request.grant(fd):
                self._discard(fd)

    def _queue(self) -> int:
        """Return a new descriptor that holds the lock.

        Locks belong to descriptors: with a shared one, the next caller would seem to hold a lock
        that is about to be released.
        """
        fd = self._access.open_file(self._path)
        self._queued.add(fd)
        try:
            wait_for_lock(fd)
        except OSError:
            self._discard(fd)
            raise
        return fd

    def _unable(self, error: Exception) -> NotBegunError:
        """Return the error for a lock that cannot be waited for."""
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return NotBegunError(
                f"the database is locked by another process, and no file descriptor is free to "
                f"wait for it ({error}); close some files, or raise the limit (ulimit -n)"
            )
        return NotBegunError(
            f"the database is locked by another process, and cannot be waited for: {error}"
        )

    def _discard(self, fd: int) -> None:
        self._queued.discard(fd)
        os.close(fd)


class _Request:
    """One caller's request for the lock, which it may abandon."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._decided = threading.Event()
        self._fd: int | None = None
        self._is_abandoned = False
        self.refusal: Exception | None = None
        """Why the lock could not be waited for."""

    def granted_within(self, timeout: float) -> int | None:
        """Return the descriptor that holds the lock, or None after *timeout* seconds."""
        self._decided.wait(timeout)
        with self._mutex:
            self._is_abandoned = self._fd is None
            return self._fd

    def grant(self, fd: int) -> bool:
        """Pass the lock on, unless the caller has given up; return whether it has not."""
        with self._mutex:
            if not self._is_abandoned:
                self._fd = fd
                self._decided.set()
            return not self._is_abandoned

    def refuse(self, error: Exception) -> None:
        """Report to the caller that the lock cannot be waited for."""
        with self._mutex:
            self.refusal = error
            self._decided.set()


_open_locks: weakref.WeakSet[SidecarLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lock in list(_open_locks):
        lock.forget()


after_fork(_forget_in_child)
