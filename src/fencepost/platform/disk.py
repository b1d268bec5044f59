"""Reading and writing at an offset, and what makes a write survive a power cut."""

from __future__ import annotations

import errno
import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fencepost.platform.system import current

PUNCH_HOLE = 0x01 | 0x02
"""Linux's flags: deallocate blocks, and keep the file's length."""
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)

_fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
_positions = threading.Lock()


@contextmanager
def position(fd: int, offset: int) -> Iterator[None]:
    """Move the position of an open file, which all of this process share, for one block."""
    with _positions:
        os.lseek(fd, offset, os.SEEK_SET)
        yield


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return up to *size* bytes from *offset* on."""
    if current().has_positions:
        return os.pread(fd, size, offset)
    with position(fd, offset):
        return os.read(fd, size)


def write_at(fd: int, content: bytes, offset: int) -> int:
    """Write at *offset*; return how many bytes were written."""
    if current().has_positions:
        return os.pwrite(fd, content, offset)
    with position(fd, offset):
        return os.write(fd, content)


def force(fd: int) -> None:
    """Return when all writes to *fd* are on the disk, or raise OSError."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
        return
    if hasattr(_fcntl, "F_FULLFSYNC"):  # macOS: its fsync stops at the drive's own cache
        try:
            _fcntl.fcntl(fd, _fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in UNSUPPORTED:  # some network file systems have only fsync
                raise
        else:
            return
    os.fsync(fd)


def force_folder(path: str) -> None:
    """Make the names in a folder survive a power cut, where a folder can be opened."""
    if not current().has_owners:
        return  # Windows: NTFS writes names to its journal by itself
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def drop_cache(fd: int) -> None:
    """Drop the written pages of a file from the system's cache, where that is possible."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def deallocate(fd: int, start: int, length: int) -> None:
    """Deallocate blocks of a file, where that is possible; they read as zeros, as before."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # the latter: Windows has no such library
        fallocate = ctypes.CDLL(None).fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
        fallocate(fd, PUNCH_HOLE, start, length)
