"""The database file itself, past SQLite: to see after a disk error what really is on the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fencepost.store.sqlite.engine.log import Log, drop_cache, force

_descriptors: dict[tuple[int, int], int] = {}
"""One for each file, by device and inode, never closed: to close any descriptor of a file drops all
POSIX locks that the process has on it, those of its SQLite connections included."""


class DataFile:
    """The file of one database; other programs must be kept from writing while this is used."""

    def __init__(self, path: str) -> None:
        status = os.stat(path)
        key = (status.st_dev, status.st_ino)
        if key not in _descriptors:
            _descriptors[key] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._fd = _descriptors[key]

    def drop_cache(self) -> None:
        """Forget what memory holds of the file, so that it is read from the disk, and written."""
        drop_cache(self._fd)

    def settle(self, log: Log, pages: Mapping[int, int]) -> None:
        """Make sure that *pages* of *log*, folded in by now, are on the disk; or raise OSError."""
        self.drop_cache()
        missing = self._missing(log, pages)
        if not missing:
            return
        for number, page in missing.items():
            os.pwrite(self._fd, page, (number - 1) * len(page))
        force(self._fd)
        self.drop_cache()
        if self._missing(log, pages):
            raise OSError("the disk did not keep what it confirmed")

    def _missing(self, log: Log, pages: Mapping[int, int]) -> dict[int, bytes]:
        """Return those pages that the file has otherwise."""
        missing = {}
        for number, offset in pages.items():
            page = log.page(offset)
            if os.pread(self._fd, len(page), (number - 1) * len(page)) != page:
                missing[number] = page
        return missing
