"""The machine that was measured: a figure without it says nothing."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path
from statistics import median

import msgspec

from fencepost.clock import Clock

SYNCS = 50
PAGE = bytes(4096)


class Machine(msgspec.Struct, frozen=True):
    """What decides how fast a queue on SQLite can be."""

    cores: int
    python: str
    sqlite: str
    system: str
    file_system: str
    fdatasync_ms: float
    """How long the disk takes to confirm a page, in the median."""

    @property
    def lines(self) -> list[str]:
        found = [
            f"{self.cores} cores, {self.system}, Python {self.python}, SQLite {self.sqlite}, "
            f"{self.file_system}, fdatasync {self.fdatasync_ms:.2f} ms"
        ]
        if self.file_system == "tmpfs":
            found.append(
                "tmpfs is memory: durability costs nothing here; choose a --path on a disk"
            )
        return found


def look(folder: Path, clock: Clock) -> Machine:
    """Return the machine, with the disk under *folder*."""
    return Machine(
        cores=cores(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        system=f"{platform.system()} {platform.machine()}",
        file_system=file_system(folder),
        fdatasync_ms=_fdatasync_ms(folder / "probe", clock),
    )


def cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds *folder*; "unknown" where nothing tells."""
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    real = folder.resolve()
    # Spaces in a mount point are written as \040.
    mounts = [
        (Path(point.replace("\\040", " ")), kind) for _, point, kind, *_ in map(str.split, lines)
    ]
    above = [mount for mount in mounts if real.is_relative_to(mount[0])]
    # Of two mounts on one point the later one is seen, and max() keeps the first.
    return max(reversed(above), key=lambda mount: len(mount[0].parts), default=(real, "unknown"))[1]


def _fdatasync_ms(path: Path, clock: Clock) -> float:
    times = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(SYNCS):
            os.write(descriptor, PAGE)
            start = clock.monotonic()
            os.fdatasync(descriptor)
            times.append(clock.monotonic() - start)
    finally:
        os.close(descriptor)
        path.unlink()
    return median(times) * 1e3
