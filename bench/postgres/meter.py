"""What the server spends: bytes of log, and time on a processor where it is in reach.

A session that has ended has left its time with the postmaster, so the sum over the postmaster and
its children misses nothing: sessions, log writer, checkpointer and vacuum, of all databases.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import psycopg

LOG_POSITION = "select pg_current_wal_lsn() - '0/0'::pg_lsn"
WHERE = "select host(inet_server_addr()), pg_backend_pid()"
PROC = Path("/proc")
PROGRAM = "postgres"
LOOKS_MAX = 10


class Reading(NamedTuple):
    """What had been spent at one time."""

    wal_bytes: int
    cpu_seconds: float | None


class Cost(NamedTuple):
    """What was spent on a job."""

    wal_bytes: float
    cpu_us: float | None


class Process(NamedTuple):
    """A line of /proc: times in clock ticks."""

    name: str
    parent: int
    own: int
    of_ended_children: int


class Meter:
    """Reads through a connection that the measured work does not use."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._postmaster = _postmaster(connection)

    @property
    def sees_processes(self) -> bool:
        return self._postmaster is not None

    def read(self) -> Reading:
        row = self._connection.execute(LOG_POSITION).fetchone()
        assert row is not None
        return Reading(int(row[0]), self._cpu_seconds())

    def cost(self, before: Reading, jobs: int) -> Cost:
        """Return what was spent on each of *jobs* since *before*."""
        now = self.read()
        cpu = None
        if now.cpu_seconds is not None and before.cpu_seconds is not None:
            cpu = (now.cpu_seconds - before.cpu_seconds) / jobs * 1e6
        return Cost((now.wal_bytes - before.wal_bytes) / jobs, cpu)

    def _cpu_seconds(self) -> float | None:
        if self._postmaster is None:
            return None
        ticks, before = 0, _process(self._postmaster)
        for _ in range(LOOKS_MAX):
            ticks = self._ticks_of_children()
            after = _process(self._postmaster)
            # A session that ended while we looked would count twice, or not at all.
            if after is None or after == before:
                break
            before = after
        if before is None:
            return None
        return (ticks + before.own + before.of_ended_children) / os.sysconf("SC_CLK_TCK")

    def _ticks_of_children(self) -> int:
        numbers = [int(folder.name) for folder in PROC.iterdir() if folder.name.isdecimal()]
        processes = [_process(number) for number in numbers]
        return sum(p.own for p in processes if p is not None and p.parent == self._postmaster)


def _postmaster(connection: psycopg.Connection) -> int | None:
    """Return the server's first process, None if it is not on this machine."""
    row = connection.execute(WHERE).fetchone()
    assert row is not None
    address, pid = row
    if address is not None and not ip_address(address).is_loopback:
        return None
    backend = _process(pid)
    # In a container of its own the server counts its processes for itself.
    return backend.parent if backend is not None and backend.name == PROGRAM else None


def _process(pid: int) -> Process | None:
    """Return a process, None if there is none or it is hidden."""
    try:
        text = (PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name is in parentheses, and may hold some.
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return Process(name, int(fields[1]), user + system, ended_user + ended_system)
