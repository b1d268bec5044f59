"""What an operator should know about this file: durability first."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from fencepost.core.bounds import LOG_PAGES_MAX
from fencepost.store.interface.overview import Finding
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.engine.database import Database
from fencepost.store.sqlite.engine.permissions import exposures
from fencepost.store.sqlite.jobs.catalog import Env

EXPIRED = "select count(*) from jobs where state = 3 and lease_expires_at <= ?"
WAITING_TYPES = """
select lanes.type, sum(counters.count) from counters join lanes on lanes.lane = counters.lane
where counters.state = 1 and counters.count > 0 group by 1
"""
WORKER_TYPES = """
select distinct value from workers, json_each(workers.info, '$.types') where seen_at > ?
"""
SAFE_SQLITE = (3, 51, 3)
LOCKS = Path("/proc/locks")
READ_LOCKS = range(124, 128)
"""Bytes of the ``-shm`` file on which SQLite locks, one for each snapshot that needs the log."""

DURABILITY = {
    "power": Finding(
        "ok",
        "durability",
        "durability power: what was acknowledged survives a killed process and a power cut",
    ),
    "process": Finding(
        "warn",
        "durability",
        "durability process: what was acknowledged survives a killed process; a power cut may "
        "take back the last moments (drop ?durability=process to survive both)",
    ),
}


def examine(env: Env) -> Plan[list[Finding]]:
    """Look at the engine, its settings, and jobs that wait for nobody."""
    database = env.database
    now = env.clock.now_us()
    findings = [DURABILITY[database.durability], _sqlite_version()]
    findings += [*_disk(database), _log(database), *_permissions(database)]
    ((version,),) = yield Statement("select max(version) from schema_version")
    findings.append(Finding("ok", "schema", f"schema version {version} in {database.path}"))
    ((orphans,),) = yield Statement(EXPIRED, (now,))
    findings.append(_orphans(orphans))
    known = {row[0] for row in (yield Statement(WORKER_TYPES, (now - 60_000_000,)))}
    for type_, count in (yield Statement(WAITING_TYPES)):
        if type_ not in known:
            findings.append(
                Finding(
                    "warn",
                    "no_worker",
                    f"{count} jobs of type {type_!r} wait, and no live worker serves it",
                )
            )
    return findings


def _sqlite_version() -> Finding:
    text = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return Finding("ok", "sqlite_version", text)
    return Finding(
        "note",
        "sqlite_version",
        f"{text}: before 3.51.3 a checkpoint beside another program's commit may corrupt the "
        f"file; Fencepost's own processes are kept apart by a lock, other writers are not",
    )


def _disk(database: Database) -> list[Finding]:
    """Tell of a write that the disk did not confirm, as long as that has not been made good."""
    if not database.is_marked:
        return []
    return [
        Finding(
            "fail",
            "disk",
            "the disk failed to confirm a write; writes are refused until all that was written has "
            "reached the disk, which every write tries; look at the system's log",
        )
    ]


def _permissions(database: Database) -> list[Finding]:
    """Warn of every file that somebody can open who should not."""
    found = list(exposures(database.path, database.access.group))
    if found:
        return [Finding("warn", "permissions", text) for text in found]
    whom = "their owner"
    if database.access.group is not None:
        whom += f" and group {database.access.group}"
    return [Finding("ok", "permissions", f"the files are open to {whom} alone")]


def _log(database: Database) -> Finding:
    text = f"the write-ahead log has {database.log_bytes / 1e6:,.1f} MB"
    if database.log_pages <= LOG_PAGES_MAX:
        return Finding("ok", "log", text)
    readers = ", ".join(_readers(database.path)) or "not found now"
    return Finding(
        "warn",
        "log",
        f"{text}, more than it should: a program that keeps a read transaction open keeps it from "
        f"being folded into the file (a backup, a shell); readers: {readers}",
    )


def _readers(path: str) -> list[str]:
    """Return which other processes read a snapshot now, as far as the system tells."""
    with suppress(OSError, ValueError, IndexError):
        inode = str(os.stat(f"{path}-shm").st_ino)
        locks = [line.split() for line in LOCKS.read_text("ascii").splitlines()]
        pids = {
            int(fields[4])
            for fields in locks
            if fields[5].rpartition(":")[2] == inode and int(fields[6]) in READ_LOCKS
        }
        return [f"process {pid}{_name(pid)}" for pid in sorted(pids - {os.getpid()})]
    return []


def _name(pid: int) -> str:
    with suppress(OSError):
        return f" ({Path(f'/proc/{pid}/comm').read_text('utf-8', 'replace').strip()})"
    return ""


def _orphans(count: int) -> Finding:
    if count == 0:
        return Finding("ok", "orphaned_leases", "no lease has run out unrecovered")
    return Finding(
        "warn",
        "orphaned_leases",
        f"{count} leases have run out and wait for recovery; `fencepost recover` does it now",
    )
