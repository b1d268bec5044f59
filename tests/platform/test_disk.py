"""Reading and writing at an offset, and forcing what was written."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.platform import disk
from fencepost.platform.disk import force, read_at, write_at
from fencepost.platform.system import System


def test_threads_that_share_a_descriptor_do_not_move_each_other(
    system: System, tmp_path: Path
) -> None:
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    places = range(0, 800, 8)

    def write(start: int) -> None:
        for place in places[start::4]:
            assert write_at(fd, place.to_bytes(8), place) == 8
            assert read_at(fd, 8, place) == place.to_bytes(8)

    threads = [threading.Thread(target=write, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_at(fd, 1_000, 0) == b"".join(place.to_bytes(8) for place in places)
    os.close(fd)


class Mac:
    """Answers for macOS' fcntl and fsync."""

    F_FULLFSYNC = 51

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int | None = None) -> None:
        self.calls: list[object] = []
        self._error = error
        monkeypatch.delattr(os, "fdatasync")
        monkeypatch.setattr(disk, "_fcntl", self)
        monkeypatch.setattr(os, "fsync", lambda _: self.calls.append("fsync"))

    def fcntl(self, fd: int, what: int) -> None:
        self.calls.append(what)
        if self._error is not None:
            raise OSError(self._error, os.strerror(self._error))


def test_a_mac_forces_its_drive_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fsync returns when the drive has the write in its cache, which a power cut empties."""
    mac = Mac(monkeypatch)
    force(1)
    assert mac.calls == [Mac.F_FULLFSYNC]


def test_a_file_system_that_cannot_force_the_drive_is_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mac = Mac(monkeypatch, errno.ENOTSUP)
    force(1)
    assert mac.calls == [Mac.F_FULLFSYNC, "fsync"]


def test_a_drive_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try after an error would succeed, with the write lost."""
    mac = Mac(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        force(1)
    assert mac.calls == [Mac.F_FULLFSYNC]


def test_without_either_it_is_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(disk, "_fcntl", SimpleNamespace())
    monkeypatch.setattr(os, "fsync", calls.append)
    force(7)
    assert calls == [7]
