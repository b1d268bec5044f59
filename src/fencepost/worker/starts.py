"""Which handlers of a worker have started, on record outside its process.

A store counts an attempt when it hands out the job, because it cannot see the first line of a
handler. A process that dies takes jobs with it whose handlers have not started. This record tells
them apart: a file in memory that outlives the process, with the token of every lease whose handler
has started, written before the handler's first line. Another worker of this machine reads it
(``orphans.py``), and releases the rest uncounted (C41).

The file is locked for as long as its process lives; processes that a handler forks release it, as
they may outlive the worker. It has two halves: when one is full, the leases that are still held are
copied to the other, and one byte says which half counts. So the file is right whenever the process
dies. It may not survive a power failure, so records from before the last start of the machine are
ignored.
"""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from fencepost.core.bounds import UNSETTLED_MAX
from fencepost.platform.disk import read_at, write_at
from fencepost.platform.files import OPEN, others, user
from fencepost.platform.locks import try_lock, unlock
from fencepost.platform.processes import after_fork
from fencepost.platform.system import boot

SUFFIX = ".starts"
MAGIC = b"fencepost starts 1\n"
HEADER = 4_096
"""Bytes: magic, boot, length of a lease, worker, and in the last two whether it was found dead and
which half counts."""
FOUND, WHICH = HEADER - 2, HEADER - 1
TOKEN_BYTES = 128
"""More than a token of any store has."""
KEPT = 60.0
"""Seconds for which a record is kept after the last lease of its worker."""
UNKNOWN = 2
"""In the place of a half: what has started is not known, so nothing may be released."""


class StartRecord:
    """The record of one worker, while it runs. Written by any of its threads."""

    def __init__(
        self,
        folder: Path,
        worker: str,
        *,
        slots: int,
        lease_ttl: float,
        live: Callable[[], Iterable[str]],
    ) -> None:
        """Make the file. *live* returns the tokens of the started jobs that are held."""
        self._live = live
        self._mutex = threading.Lock()
        self._half = 4 * (slots + UNSETTLED_MAX) * TOKEN_BYTES
        self._is_known = True
        self._is_over = False
        self.path = folder / f"{sha256(worker.encode()).hexdigest()[:24]}{SUFFIX}"
        if self.path.exists():
            # A handler of an earlier run of this worker may still be running in a thread.
            raise FileExistsError(f"{self.path} was left by an earlier run, which held jobs")
        unnamed = self.path.with_suffix(".new")
        self._fd = os.open(unnamed, OPEN | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            if not try_lock(self._fd) or _is_free(unnamed):
                raise OSError(f"{folder} is on a file system without locks")
            # All of it now: a disk that is full later would end the process with SIGBUS.
            with open(self._fd, "wb", closefd=False) as file:
                file.write(bytes(HEADER + 2 * self._half))
            self._map = mmap.mmap(self._fd, HEADER + 2 * self._half)
            head = MAGIC + f"{boot()}\n{lease_ttl}\n{worker}\n".encode()
            self._map[: len(head)] = head
            self._at = self._start_of(0)
            # Only now: who finds it under this name finds it locked, and complete.
            os.rename(unnamed, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unnamed)
            os.close(self._fd)
            raise
        _open_records.add(self)

    def add(self, token: str) -> bool:
        """Note that the handler of a lease starts now; return False if it must not start any more.

        That is for a thread which outlived its worker: others may have released its job.
        """
        text = b"%b\n" % token.encode()
        with self._mutex:
            if self._is_over or not self._is_known:
                return not self._is_over
            end = self._at + len(text)
            if end > self._start_of(self._map[WHICH]) + self._half:
                self._turn_over(text)
            else:
                self._map[self._at : end] = text
                self._at = end
            return True

    def close(self, *, is_empty: bool) -> None:
        """Let go of the file, as the end of the process would; if nothing is held, remove it."""
        with self._mutex:
            if self._is_over:
                return
            self._is_over = True
            if is_empty:
                with suppress(OSError):
                    os.unlink(self.path)
            self._map.close()
            os.close(self._fd)

    def forget(self) -> None:
        """In a forked child: let go of the lock, which would outlive the worker with the child."""
        self._mutex = threading.Lock()  # a thread that was not forked may hold the old one
        self.close(is_empty=False)

    def _start_of(self, half: int) -> int:
        return HEADER + half * self._half

    def _turn_over(self, text: bytes) -> None:
        """Go on in the other half, with what is still held."""
        kept = b"".join(b"%b\n" % token.encode() for token in self._live()) + text
        other = 1 - self._map[WHICH]
        start = self._start_of(other)
        if len(kept) > self._half:
            self._map[WHICH] = UNKNOWN
            self._is_known = False
            return
        self._map[start : start + self._half] = kept.ljust(self._half, b"\0")
        self._map[WHICH] = other
        self._at = start + len(kept)


_open_records: weakref.WeakSet[StartRecord] = weakref.WeakSet()


def _forget_in_child() -> None:
    for record in list(_open_records):
        record.forget()


after_fork(_forget_in_child)


def _is_free(path: Path) -> bool:
    """Return whether a lock can be had that another descriptor holds: then locks do not work."""
    fd = os.open(path, OPEN)
    try:
        return try_lock(fd)
    finally:
        os.close(fd)


class NoRecord:
    """Stands for the record where none can be kept: lost jobs then count as attempts."""

    def add(self, token: str) -> bool:
        """Note nothing."""
        return True

    def close(self, *, is_empty: bool) -> None:
        """There is nothing to remove."""


class DeadRecord:
    """The record of a worker that has died, which nobody writes to any more.

    What has started is read when it is asked for: most that died hold nothing any more, and a
    machine may have hundreds of their records, with a megabyte each.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        head = read_at(fd, HEADER, 0)
        size = os.fstat(fd).st_size
        if not head.startswith(MAGIC) or size <= HEADER:
            raise ValueError(f"{path} is no record of starts")
        text = head[len(MAGIC) :].decode("utf-8", "replace")
        then, lease_ttl, self.worker, _ = text.split("\n", 3)
        self._lease_ttl = float(lease_ttl)
        self._has_been_found = bool(head[FOUND])
        self._half = (size - HEADER) // 2
        self._which = head[WHICH]
        self._is_known = self._which != UNKNOWN and then == boot()

    @cached_property
    def _tokens(self) -> frozenset[bytes]:
        content = read_at(self._fd, self._half, HEADER + self._which * self._half)
        # What follows the last end of line was being written: that handler has not started.
        return frozenset(content.split(b"\0", 1)[0].split(b"\n")[:-1])

    def has_started(self, token: str) -> bool:
        """Return whether the handler of a lease may have started."""
        return not self._is_known or token.encode() in self._tokens

    def tidy(self, now: float) -> None:
        """Note when it was found; remove it once no lease of its worker can be valid any more.

        Until then it is for the workers of all stores on this machine, and for a claim that is
        still under way in the store's server.
        """
        if not self._has_been_found:
            write_at(self._fd, b"\1", FOUND)
            os.utime(self._fd, (now, now))
        elif now > os.fstat(self._fd).st_mtime + self._lease_ttl + KEPT:
            with suppress(FileNotFoundError):  # another process has removed it
                os.unlink(self.path)


@contextmanager
def dead_record(path: Path) -> Iterator[DeadRecord | None]:
    """Open the record of a worker that has died; None if it lives.

    For a process whose turn it is to look: of two that look at once, one may take it for alive.
    """
    fd, record = -1, None
    try:
        fd = os.open(path, OPEN)
        if try_lock(fd) and os.fstat(fd).st_nlink:
            unlock(fd)  # who has died does not come back
            record = DeadRecord(path, fd)
    except (OSError, ValueError):
        pass
    try:
        yield record
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def turn_to_look(folder: Path) -> Iterator[bool]:
    """Keep other processes from looking at records meanwhile; False if another one is at it."""
    fd = os.open(folder / "looking", OPEN | os.O_CREAT, 0o600)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for records of starts, which only this user can write to; make it.

    Raises OSError if there is none: then another user could have records believed.
    """
    by_systemd = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if given := environ.get("FENCEPOST_RUNTIME_DIR") or by_systemd:
        folder = Path(given)
    elif (session := environ.get("XDG_RUNTIME_DIR")) and _is_own(Path(session)):
        folder = Path(session) / "fencepost"
    else:
        folder = Path(tempfile.gettempdir()) / f"fencepost-{user()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_own(folder):
        raise PermissionError(f"{folder} is not a folder that only user {user()} can write to")
    return folder


def _is_own(folder: Path) -> bool:
    """Return whether there is a folder that only this user can write to.

    That of a session may be another user's, after ``su``, or be gone with the session.
    """
    try:
        found = folder.lstat()
    except OSError:
        return False
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == user()
    return is_own and not others(found.st_mode, 0o022)


def records(folder: Path) -> list[Path]:
    """Return the records in a folder, of workers that live and of those that have died."""
    return sorted(folder.glob(f"*{SUFFIX}"))
