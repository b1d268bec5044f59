"""The server that was measured, and the machine that measured it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from statistics import median

import msgspec
import psycopg

from bench.machine import cores
from bench.postgres.bench import PostgresBench

PROBES = 50
SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
    "jit",
)
READ_SETTING = "select current_setting(%s)"


class ServerMachine(msgspec.Struct, frozen=True):
    """What decides how fast a queue on PostgreSQL can be."""

    cores: int
    python: str
    system: str
    psycopg: str
    postgres: str
    settings: dict[str, str]
    is_local: bool
    """The server's processes are on this machine, and share its cores with the workers."""
    round_trip_ms: float
    commit_ms: float
    """How long one insert takes until it is on the disk, in the median."""

    @property
    def durability(self) -> str:
        """What an acknowledged write survives."""
        return f"fsync {self.settings['fsync']}, commit {self.settings['synchronous_commit']}"

    @property
    def lines(self) -> list[str]:
        others = [f"{name} {value}" for name, value in self.settings.items()]
        where = "on this machine" if self.is_local else "elsewhere"
        found = [
            f"{self.cores} cores, {self.system}, Python {self.python}, psycopg {self.psycopg}",
            f"PostgreSQL {self.postgres} {where}: " + ", ".join(others),
            f"round trip {self.round_trip_ms:.2f} ms, commit {self.commit_ms:.2f} ms",
        ]
        if self.settings["fsync"] == "off" or self.settings["synchronous_commit"] == "off":
            found.append("this server does not wait for its disk: its figures say little")
        return found


def look(bench: PostgresBench) -> ServerMachine:
    """Return the server behind *bench*."""
    row = bench.admin.execute("show server_version").fetchone()
    assert row is not None
    return ServerMachine(
        cores=cores(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        psycopg=psycopg.__version__,
        postgres=row[0].split()[0],
        settings={name: _setting(bench.admin, name) for name in SETTINGS},
        is_local=bench.meter.sees_processes,
        round_trip_ms=_ms(bench, lambda: bench.admin.execute("select 1", prepare=True)),
        commit_ms=_commit_ms(bench),
    )


def _setting(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute(READ_SETTING, (name,)).fetchone()
    assert row is not None
    return str(row[0])


def _commit_ms(bench: PostgresBench) -> float:
    rows = iter(bench.raw.rows(PROBES))
    return _ms(bench, lambda: bench.raw.submit([next(rows)]))


def _ms(bench: PostgresBench, work: Callable[[], object]) -> float:
    return median(bench.seconds(work) for _ in range(PROBES)) * 1e3
