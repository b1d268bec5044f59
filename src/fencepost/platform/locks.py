"""An exclusive lock between processes, on an open file; it ends with its holder, however that ends.

It belongs to the descriptor: two of them exclude each other, also in one process, and closing the
descriptor releases it. A child that inherits the descriptor holds the lock too.

``flock`` queues in the kernel, in order. Where there is only a lock on bytes, waiting is polling,
and a process that takes the lock again and again would leave the others nothing. So there are two
bytes: one for the lock, and one for the next in line. A process
that finds the second one locked does not overtake.
"""

from __future__ import annotations

import errno
import importlib
import os
import struct
import threading
from contextlib import suppress
from typing import Any

from fencepost.platform.disk import position
from fencepost.platform.system import current

IS_WINDOWS = os.name == "nt"
LOCK_BYTE = 1 << 30
"""Far behind the end of any file that is locked: a locked byte cannot be read."""
LINE_BYTE = LOCK_BYTE + 1
WAIT_MIN, WAIT_MAX = 0.000_5, 0.005
"""Seconds between two tries to lock a byte."""
_fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


def try_lock(fd: int) -> bool:
    """Take the lock of an open file if nobody holds it or waits for it; return whether it is ours.

    Raises OSError if the system cannot lock the file.
    """
    if not current().has_flock:
        if not _take(fd, LINE_BYTE):
            return False
        try:
            return _take(fd, LOCK_BYTE)
        finally:
            _free(fd, LINE_BYTE)
    try:
        _fcntl.flock(fd, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(fd: int) -> None:
    """Return when the lock is ours; raises OSError, as above."""
    if not current().has_flock:
        _wait_for(fd, LINE_BYTE)
        try:
            _wait_for(fd, LOCK_BYTE)
        finally:
            _free(fd, LINE_BYTE)
        return
    _fcntl.flock(fd, _fcntl.LOCK_EX)


def unlock(fd: int) -> None:
    """Release the lock."""
    if not current().has_flock:
        _free(fd, LOCK_BYTE)
        return
    _fcntl.flock(fd, _fcntl.LOCK_UN)


def _wait_for(fd: int, place: int) -> None:
    never, pause = threading.Event(), WAIT_MIN
    while not _take(fd, place):
        never.wait(pause)
        pause = min(pause * 2, WAIT_MAX)


def _take(fd: int, place: int) -> bool:
    try:
        _set(fd, place, is_locked=True)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def _free(fd: int, place: int) -> None:
    with suppress(OSError):  # the descriptor was closed, and the lock with it
        _set(fd, place, is_locked=False)


def _set(fd: int, place: int, *, is_locked: bool) -> None:
    """Lock one byte or unlock it, without waiting."""
    if not IS_WINDOWS:
        _set_as_elsewhere(fd, place, is_locked=is_locked)
        return
    msvcrt: Any = importlib.import_module("msvcrt")
    with position(fd, place):
        msvcrt.locking(fd, msvcrt.LK_NBLCK if is_locked else msvcrt.LK_UNLCK, 1)


def _set_as_elsewhere(fd: int, place: int, *, is_locked: bool) -> None:
    """Do it with what Linux has; only tests choose bytes there."""
    kind = _fcntl.F_WRLCK if is_locked else _fcntl.F_UNLCK
    _fcntl.fcntl(fd, _fcntl.F_OFD_SETLK, struct.pack("hhqqixxxx", kind, os.SEEK_SET, place, 1, 0))
