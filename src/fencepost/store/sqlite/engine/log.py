"""SQLite's files, past SQLite: the write-ahead log, and the database after a disk error.

The format is SQLite's own and fixed (https://sqlite.org/fileformat2.html#walformat): a header, then
frames of one page each, every frame with the salts of the header and a checksum over all before it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue

from fencepost.platform.disk import deallocate, drop_cache, force, read_at, write_at
from fencepost.platform.files import OPEN
from fencepost.store.sqlite.engine.errors import NotBegunError

HEADER = struct.Struct(">8I")
"""Magic number, version, page size, checkpoint number, two salts, two checksums."""
FRAME = struct.Struct(">6I")
"""Page number, size of the database after a commit, two salts, two checksums."""
USER_VERSION = slice(60, 64)
"""Where the first page holds the number of ``pragma user_version``."""
FORCING_MAX = 4
"""Threads of one process that can force the log at once."""
CLOSED = -1
BLOCK = 4_096
BIG_ENDIAN = 1
"""The bit of the magic number that says how checksums read words."""


class Log:
    """The log of one database; an open connection keeps it from being deleted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fds: list[int] = []
        self._copy = b""
        self._turns: SimpleQueue[int] = SimpleQueue()
        with ExitStack() as opened:
            for _ in range(FORCING_MAX):
                # Not created: SQLite has made it, or the name is wrong.
                self._fds.append(os.open(f"{path}-wal", OPEN))
                opened.callback(os.close, self._fds[-1])
            opened.pop_all()
        for fd in self._fds:
            self._turns.put(fd)

    @property
    def fd(self) -> int:
        return self._fds[0] if self._fds else CLOSED

    @contextmanager
    def turn(self) -> Iterator[int]:
        """Wait for a descriptor to force the log with, and use it exclusively.

        The system reports an error once to each descriptor: of two threads that share one, only
        the first would see it. They are opened beforehand, because a descriptor that is opened
        after an error was reported does not report it.
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
        """Close the log; forcing it afterwards fails."""
        turns = [self._turns.get() for _ in self._fds]
        self._fds = []
        for fd in turns:
            os.close(fd)
            self._turns.put(CLOSED)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.fstat(self.fd).st_size

    def reaches(self, frames: int) -> bool:
        """Whether the log has this many frames.

        Frames from before its last start follow its end, with other salts.
        """
        header = read_at(self.fd, HEADER.size, 0)
        if len(header) < HEADER.size:
            return False
        _, _, page_size, _, *salts, _, _ = HEADER.unpack(header)
        start = HEADER.size + (frames - 1) * (FRAME.size + page_size)
        frame = read_at(self.fd, FRAME.size, start)
        return len(frame) == FRAME.size and list(FRAME.unpack(frame)[2:4]) == salts

    def force(self) -> None:
        """Return when all writes are on the disk, or raise OSError; with all turns."""
        force(self.fd)

    def clear_errors(self) -> None:
        """Let every descriptor report its pending errors; with all turns."""
        for fd in self._fds:
            with suppress(OSError):
                force(fd)

    def rewrite(self, version: int) -> dict[int, int]:
        """Write the whole log again, force it, and read it back from the disk.

        Return the offset of the last committed version of each page. No other process may write
        meanwhile. *version* is the ``user_version`` that the commit just before has set.

        A forced write that failed leaves pages in memory that the system counts as written: forcing
        again does nothing. Writing them again is not enough either: ext4 then confirms, and reads
        zeros after a restart, if the blocks were new. So the cache is dropped first, and blocks
        that the disk reads as zeros are deallocated.
        """
        self.pages(version)
        # From here on, the cache may lose what the disk never had: this is the only copy.
        self._copy = read_at(self.fd, self.size, 0)
        with suppress(OSError):
            self.force()  # unwritten pages would stay in the cache
        drop_cache(self.fd)
        on_disk = read_at(self.fd, len(self._copy), 0)
        for start in range(0, len(self._copy), BLOCK):
            if not any(on_disk[start : start + BLOCK]):
                deallocate(self.fd, start, BLOCK)
        self.restore()
        self.force()
        drop_cache(self.fd)
        committed = self.pages(version)
        self._copy = b""
        return committed

    def restore(self) -> None:
        """Write back what a failed ``rewrite`` had read; the cache may have lost it.

        Not over a log that another process has started since: its header has other salts, or none.
        """
        header = read_at(self.fd, HEADER.size, 0)
        is_same = header == self._copy[: HEADER.size] or (header and not any(header))
        if not is_same:
            self._copy = b""
        if self._copy and write_at(self.fd, self._copy, 0) != len(self._copy):
            raise OSError("the log was written in part")

    def pages(self, version: int) -> dict[int, int]:
        """Return the offset of the last committed version of each page.

        Raises NotBegunError unless the log is whole up to the commit that set *version*: pages
        that the cache lost are read as the disk had them before, with wrong checksums.
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
        _, _, page_size, *_ = HEADER.unpack(read_at(self.fd, HEADER.size, 0))
        return read_at(self.fd, page_size, offset + FRAME.size)

    def _frames(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield each valid frame: page number, size after a commit, offset, user version if any."""
        header = read_at(self.fd, HEADER.size, 0)
        if len(header) < HEADER.size:
            return
        magic, _, page_size, _, *salts, first, second = HEADER.unpack(header)
        order = ">" if magic & BIG_ENDIAN else "<"
        sums = _checksum(order, header[:24], (0, 0))
        if sums != (first, second):
            return
        offset, length = HEADER.size, FRAME.size + page_size
        while len(frame := read_at(self.fd, length, offset)) == length:
            number, size, *marks, first, second = FRAME.unpack_from(frame)
            page = frame[FRAME.size :]
            sums = _checksum(order, page, _checksum(order, frame[:8], sums))
            if marks != salts or sums != (first, second):
                return
            version = int.from_bytes(page[USER_VERSION], "big") if number == 1 else None
            yield number, size, offset, version
            offset += length


def _checksum(order: str, content: bytes, start: tuple[int, int]) -> tuple[int, int]:
    """Continue the checksum of SQLite's log over *content*."""
    first, second = start
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


_descriptors: dict[tuple[int, int], int] = {}
"""One per file, by device and inode, never closed: closing any descriptor of a file drops all POSIX
locks that the process has on it, those of its SQLite connections included."""


class DataFile:
    """The file of one database, past SQLite; no other program may write while it is used."""

    def __init__(self, path: str) -> None:
        status = os.stat(path)
        key = (status.st_dev, status.st_ino)
        if key not in _descriptors:
            _descriptors[key] = os.open(path, OPEN)
        self._fd = _descriptors[key]

    def drop_cache(self) -> None:
        """Drop the file from the cache, so that it is read from the disk, and written."""
        drop_cache(self._fd)

    def settle(self, log: Log, pages: Mapping[int, int]) -> None:
        """Make sure that the checkpointed *pages* of *log* are on the disk, or raise OSError."""
        self.drop_cache()
        missing = self._missing(log, pages)
        if not missing:
            return
        for number, page in missing.items():
            write_at(self._fd, page, (number - 1) * len(page))
        force(self._fd)
        self.drop_cache()
        if self._missing(log, pages):
            raise OSError("the disk did not keep what it confirmed")

    def _missing(self, log: Log, pages: Mapping[int, int]) -> dict[int, bytes]:
        """Return the pages that differ in the file."""
        missing = {}
        for number, offset in pages.items():
            page = log.page(offset)
            if read_at(self._fd, len(page), (number - 1) * len(page)) != page:
                missing[number] = page
        return missing
