"""The list of all processes that a run has started, so that none is left behind.

A process is its number and its birth: a number alone may by now be somebody else's.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

NAME = "roster"


def birth(pid: int) -> str | None:
    """Return when a process began, in ticks since boot; None if there is no telling."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def enrol(place: Path, pid: int) -> None:
    """Add a process to the list."""
    line = f"{pid} {birth(pid)}\n".encode()
    file = os.open(place / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line)
    os.close(file)


def survivors(place: Path) -> list[int]:
    """Return those on the list that still run."""
    path = place / NAME
    lines = path.read_text().splitlines() if path.exists() else []
    known = [line.split() for line in lines]
    return [int(pid) for pid, born in known if born != "None" and birth(int(pid)) == born]


def end_survivors(place: Path) -> list[int]:
    """Kill what is left, by its number, and return what that was."""
    left = survivors(place)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left
