"""A disk that can be filled: a file system in memory, where root may mount one, made to fit.

Elsewhere, for SQLite, the system's limit on the size of a file does the same to its log: every
write past it fails. PostgreSQL has no such way, and the fault is left out with that reason.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SIZE_KIB = 8 << 20
"""More than any run needs; memory is used for what is written only."""


class Disk:
    """A folder, and a way to fill what it is on."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "disk"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.is_mounted = os.geteuid() == 0 and _run(
            "mount", "-t", "tmpfs", "-o", _options(SIZE_KIB), "fencepost-chaos", str(self.folder)
        )

    def fill(self) -> bool:
        """Leave no byte free, by making the file system as small as what is in it."""
        state = os.statvfs(self.folder)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize // 1024
        # What is written meanwhile makes it too small to be made so small.
        return any(self._resize(used + more) for more in (0, 64, 512, 4096))

    def free(self) -> None:
        if self.is_mounted:
            self._resize(SIZE_KIB)

    def _resize(self, kib: int) -> bool:
        return _run("mount", "-o", f"remount,{_options(kib)}", str(self.folder))

    def close(self) -> None:
        if self.is_mounted:
            unmount(self.folder)
            self.is_mounted = False


def unmount(folder: Path) -> None:
    """Give back the memory of a disk; do nothing to a plain folder."""
    if folder.is_mount():
        _run("umount", "--lazy", str(folder))


def _options(kib: int) -> str:
    return f"size={kib}k,mode=1777"


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def limit_files(pids: Iterable[int], size: int | None) -> None:
    """Let these processes write no file longer than *size*; None lifts that."""
    _limit(resource.RLIMIT_FSIZE, pids, resource.RLIM_INFINITY if size is None else size)


def limit_descriptors(pids: Iterable[int], count: int | None) -> None:
    """Let these processes open no file once they have *count* of them; None lifts that."""
    _limit(resource.RLIMIT_NOFILE, pids, count)


def _limit(kind: int, pids: Iterable[int], limit: int | None) -> None:
    """Set the soft limit; None is as much as they may have."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            _, hard = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (hard if limit is None else limit, hard))
