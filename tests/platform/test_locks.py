"""One lock, as flock and as bytes of a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.platform import locks
from fencepost.platform.locks import LINE_BYTE, LOCK_BYTE, try_lock, unlock, wait_for_lock
from fencepost.platform.system import System

HOLD = """
import os, sys
from fencepost.platform.locks import try_lock
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
assert try_lock(fd)
print("held", flush=True)
sys.stdin.read()
"""


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_two_descriptors_exclude_each_other(system: System, tmp_path: Path) -> None:
    first, second = opened(tmp_path / "l"), opened(tmp_path / "l")
    assert try_lock(first)
    assert not try_lock(second)
    unlock(first)
    assert try_lock(second)
    os.close(second)
    assert try_lock(first), "closing releases"
    os.close(first)


def test_a_lock_ends_with_the_process_that_holds_it(system: System, tmp_path: Path) -> None:
    """However it ends: nobody else could release the lock."""
    path = tmp_path / "l"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == b"held\n"
    fd = opened(path)
    assert not try_lock(fd)
    holder.send_signal(signal.SIGKILL)
    holder.wait(10)
    assert try_lock(fd)
    os.close(fd)
    holder.stdout.close()
    holder.stdin.close()


def test_a_locked_file_can_be_read_and_written(system: System, tmp_path: Path) -> None:
    """Windows keeps others from a byte that is locked, so it lies behind the end."""
    first, second = opened(tmp_path / "l"), opened(tmp_path / "l")
    assert try_lock(first)
    os.write(first, b"!")
    os.lseek(second, 0, os.SEEK_SET)
    assert os.read(second, 10) in (b"!", b"")  # its first descriptor may stand elsewhere
    assert os.fstat(first).st_size <= LINE_BYTE + 1
    os.close(first)
    os.close(second)


def test_one_that_takes_the_lock_again_and_again_lets_others_have_it(
    system: System, tmp_path: Path
) -> None:
    """Without a line, a busy process would starve those that poll."""
    busy, patient = opened(tmp_path / "l"), opened(tmp_path / "l")
    assert try_lock(busy)
    turns, is_over = 0, threading.Event()

    def wait_often() -> None:
        nonlocal turns
        for _ in range(20):
            wait_for_lock(patient)
            turns += 1
            unlock(patient)
        is_over.set()

    waiting = threading.Thread(target=wait_often)
    waiting.start()
    for _ in range(1_000_000):
        unlock(busy)
        if is_over.is_set():
            break
        if not try_lock(busy):
            wait_for_lock(busy)
    assert turns == 20
    waiting.join()
    os.close(busy)
    os.close(patient)


def test_windows_is_asked_for_single_bytes_far_behind_the_end(
    windows: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls alone: there is no Windows here that would answer them."""
    asked: list[tuple[int, int, int]] = []

    def locking(fd: int, mode: int, count: int) -> None:
        asked.append((mode, os.lseek(fd, 0, os.SEEK_CUR), count))
        if len(asked) == 4:
            raise PermissionError(13, "Permission denied")

    stand_in = SimpleNamespace(LK_NBLCK=2, LK_UNLCK=0, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    fd = opened(tmp_path / "l")
    monkeypatch.setattr(locks, "IS_WINDOWS", True)
    assert try_lock(fd)
    assert asked == [(2, LINE_BYTE, 1), (2, LOCK_BYTE, 1), (0, LINE_BYTE, 1)]
    assert not try_lock(fd)
    unlock(fd)
    assert asked[-1] == (0, LOCK_BYTE, 1)
    monkeypatch.undo()
    os.close(fd)


def test_a_file_that_cannot_be_locked_is_an_error(system: System) -> None:
    """It must not count as a lock that somebody else holds."""
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        try_lock(reading)
    with pytest.raises(OSError, match="Bad file descriptor"):
        wait_for_lock(reading)
