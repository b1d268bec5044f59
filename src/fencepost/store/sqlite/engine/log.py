"""SQLite's write-ahead log as a file: forcing it to the disk, its length, and writing it anew.

The format is SQLite's own and fixed (https://sqlite.org/fileformat2.html#walformat): a header, then
frames of one page each, every frame with the salts of the header and a checksum over all before it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue

from fencepost.store.sqlite.engine.errors import NotBegunError

HEADER = struct.Struct(">8I")
"""Magic number, version, page size, checkpoint number, two salts, two checksums."""
FRAME = struct.Struct(">6I")
"""Page number, size of the database after a commit, two salts, two checksums."""
USER_VERSION = slice(60, 64)
"""Where the first page of a database has the number that ``pragma user_version`` sets."""
FORCING_MAX = 4
"""Threads of one process that force the log at once."""
CLOSED = -1
BLOCK = 4_096
PUNCH_HOLE = 0x01 | 0x02
"""Give back, and keep the file's length, in the words of Linux."""
BIG_ENDIAN = 1
"""This bit of the magic number says in which order checksums read their words."""


class Log:
    """The log beside one database, which an open connection keeps from being deleted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fds: list[int] = []
        self._copy = b""
        self._turns: SimpleQueue[int] = SimpleQueue()
        with ExitStack() as opened:
            for _ in range(FORCING_MAX):
                # Not created: SQLite has made it, or the name is not the right one.
                self._fds.append(os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC))
                opened.callback(os.close, self._fds[-1])
            opened.pop_all()
        for fd in self._fds:
            self._turns.put(fd)

    @property
    def fd(self) -> int:
        return self._fds[0] if self._fds else CLOSED

    @contextmanager
    def turn(self) -> Iterator[int]:
        """Wait for a descriptor to force the log with, that nobody else uses meanwhile.

        The system reports an error once to each descriptor: of two threads that share one, the
        other would be told that all went well. They are opened beforehand, because one that is
        opened after an error has been reported is not told of it.
        """
        fd = self._turns.get()
        try:
            yield fd
        finally:
            self._turns.put(fd)

    @contextmanager
    def all_turns(self) -> Iterator[None]:
        """Keep every other thread from forcing."""
        with ExitStack() as turns:
            for _ in self._fds:
                turns.enter_context(self.turn())
            yield

    def close(self) -> None:
        """Close it; who forces it afterwards is told that it could not be done."""
        turns = [self._turns.get() for _ in self._fds]
        self._fds = []
        for fd in turns:
            os.close(fd)
            self._turns.put(CLOSED)

    @property
    def size(self) -> int:
        """The bytes that the file takes."""
        return os.fstat(self.fd).st_size

    def reaches(self, frames: int) -> bool:
        """Whether the log has so many frames.

        Frames from before the log was last begun anew stand behind its end, with other salts.
        """
        header = os.pread(self.fd, HEADER.size, 0)
        if len(header) < HEADER.size:
            return False
        _, _, page_size, _, *salts, _, _ = HEADER.unpack(header)
        start = HEADER.size + (frames - 1) * (FRAME.size + page_size)
        frame = os.pread(self.fd, FRAME.size, start)
        return len(frame) == FRAME.size and list(FRAME.unpack(frame)[2:4]) == salts

    def force(self) -> None:
        """Return when what was written is on the disk, or raise OSError; with all turns."""
        force(self.fd)

    def hear_errors(self) -> None:
        """Let every descriptor of ours report what it still has to; with all turns."""
        for fd in self._fds:
            with suppress(OSError):
                force(fd)

    def rewrite(self, version: int) -> dict[int, int]:
        """Write the whole log again, force it, and read it back from the disk.

        Return where the log has the last of each page that is committed. Nobody else may write
        meanwhile. *version* is what a commit just before set as ``user_version``.

        A forced write that failed leaves pages in memory that the system takes for written: forcing
        once more does nothing. Writing them once more is not enough either: ext4 then confirms, and
        shows zeros after a restart, if the blocks were new. So memory is made to forget them first,
        and blocks that the disk shows as zeros are given back.
        """
        self.pages(version)
        # From here on memory may forget what the disk never had: this is the only copy then.
        self._copy = os.pread(self.fd, self.size, 0)
        with suppress(OSError):
            self.force()  # what is still to be written would not be forgotten
        drop_cache(self.fd)
        on_disk = os.pread(self.fd, len(self._copy), 0)
        for start in range(0, len(self._copy), BLOCK):
            if not any(on_disk[start : start + BLOCK]):
                give_back(self.fd, start, BLOCK)
        self.restore()
        self.force()
        drop_cache(self.fd)
        committed = self.pages(version)
        self._copy = b""
        return committed

    def restore(self) -> None:
        """Write again what a ``rewrite`` that failed had read; memory may have forgotten it.

        Not over a log that somebody has begun anew since: its header has other salts, or none.
        """
        header = os.pread(self.fd, HEADER.size, 0)
        is_same = header == self._copy[: HEADER.size] or (header and not any(header))
        if not is_same:
            self._copy = b""
        if self._copy and os.pwrite(self.fd, self._copy, 0) != len(self._copy):
            raise OSError("the log was written in part")

    def pages(self, version: int) -> dict[int, int]:
        """Return where the log has the last of each page that is committed.

        Raises NotBegunError unless it is whole up to the commit that set *version*: what
        memory dropped is read as the disk had it before, and the checksums do not fit.
        """
        committed: dict[int, int] = {}
        pending: dict[int, int] = {}
        is_whole = False
        for number, size, offset, found in self._frames():
            pending[number] = offset
            is_whole = is_whole or found == version
            if size:  # the last frame of a commit
                committed |= pending
                committed = {each: at for each, at in committed.items() if each <= size}
                pending.clear()
        if not is_whole:
            raise NotBegunError(
                f"{self._path}: the disk lost part of the log; stop every process that has the "
                f"database open, then start again: what was acknowledged is in the part before"
            )
        return committed

    def page(self, offset: int) -> bytes:
        """Return the page of the frame at *offset*."""
        _, _, page_size, *_ = HEADER.unpack(os.pread(self.fd, HEADER.size, 0))
        return os.pread(self.fd, page_size, offset + FRAME.size)

    def _frames(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield each valid frame: page number, size after a commit, offset, user version if any."""
        header = os.pread(self.fd, HEADER.size, 0)
        if len(header) < HEADER.size:
            return
        magic, _, page_size, _, *salts, first, second = HEADER.unpack(header)
        order = ">" if magic & BIG_ENDIAN else "<"
        sums = _checksum(order, header[:24], (0, 0))
        if sums != (first, second):
            return
        offset, length = HEADER.size, FRAME.size + page_size
        while len(frame := os.pread(self.fd, length, offset)) == length:
            number, size, *marks, first, second = FRAME.unpack_from(frame)
            page = frame[FRAME.size :]
            sums = _checksum(order, page, _checksum(order, frame[:8], sums))
            if marks != salts or sums != (first, second):
                return
            version = int.from_bytes(page[USER_VERSION], "big") if number == 1 else None
            yield number, size, offset, version
            offset += length


def force(fd: int) -> None:
    """Return when what was written to *fd* is on the disk; raises OSError if it is not."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # macOS: its fsync stops at the drive's own cache
    else:
        os.fsync(fd)


def drop_cache(fd: int) -> None:
    """Make memory forget what it holds of a file and takes for written."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def give_back(fd: int, start: int, length: int) -> None:
    """Give back blocks of a file, where the system can: they are read as zeros, as they were."""
    import ctypes

    with suppress(AttributeError, OSError):
        fallocate = ctypes.CDLL(None).fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
        fallocate(fd, PUNCH_HOLE, start, length)


def _checksum(order: str, content: bytes, start: tuple[int, int]) -> tuple[int, int]:
    """Continue the checksum of SQLite's log over *content*."""
    first, second = start
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
