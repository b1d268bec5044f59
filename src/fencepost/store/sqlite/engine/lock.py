"""The side-car lock: ``<db>-lock``, held around every write transaction of every process.

SQLite's own busy handler sleeps and starves: of four processes, one got a single transaction
through while another got nine thousand. ``flock`` queues in the kernel, in order. It also keeps a
checkpoint from overlapping another process's commit, which SQLite before 3.51.3 can turn into
corruption; hence every commit, checkpoint and close happens under it.

The file also carries one byte for all of them: whether the disk has refused to confirm a write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref
from contextlib import suppress
from queue import SimpleQueue

from fencepost.store.sqlite.engine.errors import NotBegunError
from fencepost.store.sqlite.engine.permissions import Access

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
        if self._try():
            self._held = self._fd
            return
        # flock has no timeout, and polling loses against those who queue: a thread of ours queues
        # for us, and we wait for it for as long as we may.
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
            fcntl.flock(held, fcntl.LOCK_UN)
        else:
            self._discard(held)

    # The mark, which outlives the process that set it.

    def prepare_mark(self) -> None:
        """Take the mark's place in the file; held, before anybody can have set it.

        Setting it later then needs no room, which a disk in trouble may not have.
        """
        with suppress(OSError):
            if not os.pread(self._fd, 1, 0):
                os.pwrite(self._fd, CLEAN, 0)

    def mark(self) -> None:
        """Let every process know that what was written may not be on the disk."""
        self._is_marked = True  # this process remembers, should the file refuse it
        with suppress(OSError):
            os.pwrite(self._fd, MARKED, 0)

    def unmark(self) -> None:
        """Take the mark away; held, so that nobody writes between. Raises OSError."""
        os.pwrite(self._fd, CLEAN, 0)
        self._is_marked = False

    @property
    def is_marked(self) -> bool:
        try:
            return self._is_marked or os.pread(self._fd, 1, 0) == MARKED
        except OSError:
            return True  # what cannot be known is not vouched for

    def close(self) -> None:
        if self._waiter is not None:
            self._requests.put(None)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def forget(self) -> None:
        """Close every descriptor; in a forked child they would keep the parent's lock alive."""
        for fd in [self._fd, *self._queued]:
            if fd >= 0:
                os.close(fd)
        self._fd = -1
        self._queued.clear()

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

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
            except OSError as error:
                # Of this caller alone: the thread goes on, or nobody could ever wait again.
                request.refuse(error)
                continue
            if not request.grant(fd):
                self._discard(fd)

    def _queue(self) -> int:
        """Return a descriptor that holds the lock.

        One of its own: locks belong to descriptors, and on a shared one the next caller would find
        itself in possession of a lock that we are about to give back.
        """
        fd = self._access.open_file(self._path)
        self._queued.add(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError:
            self._discard(fd)
            raise
        return fd

    def _unable(self, error: Exception) -> NotBegunError:
        """Return why nobody can wait for the lock now."""
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
    """One caller's wish for the lock, which it may give up."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._decided = threading.Event()
        self._fd: int | None = None
        self._is_abandoned = False
        self.refusal: OSError | None = None
        """Why the lock could not be waited for, if so."""

    def granted_within(self, timeout: float) -> int | None:
        """Return the descriptor that holds the lock, or None after *timeout* seconds."""
        self._decided.wait(timeout)
        with self._mutex:
            self._is_abandoned = self._fd is None
            return self._fd

    def grant(self, fd: int) -> bool:
        """Hand the lock over, unless the caller has left."""
        with self._mutex:
            if not self._is_abandoned:
                self._fd = fd
                self._decided.set()
            return not self._is_abandoned

    def refuse(self, error: OSError) -> None:
        """Tell the caller that nobody can wait for it."""
        with self._mutex:
            self.refusal = error
            self._decided.set()


_open_locks: weakref.WeakSet[SidecarLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lock in list(_open_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
