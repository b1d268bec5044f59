"""What an operator should know about a store and its file: durability first."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from fencepost.core.bounds import LOG_PAGES_MAX
from fencepost.platform.system import current
from fencepost.store.interface.records.overview import Finding
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import RUNNING
from fencepost.store.sql.records.overview import orphaned_leases, unserved_jobs
from fencepost.store.sqlite.engine.database import Database
from fencepost.store.sqlite.engine.files import exposures
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.records.cluster import CLUSTER
from fencepost.store.sqlite.records.overview import OVERVIEW

EXPIRED = f"select count(*) from jobs where state = {RUNNING} and lease_expires_at <= ?"
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
    """Look at where the jobs are kept, at expired leases, and at jobs without a worker."""
    ((version,),) = yield Statement("select max(version) from schema_version")
    findings = env.findings(version)
    ((orphans,),) = yield Statement(EXPIRED, (env.now,))
    findings.append(orphaned_leases(orphans))
    workers = yield from CLUSTER.workers(env)
    findings += unserved_jobs((yield from OVERVIEW.queues(env)), workers)
    return findings


def examine_file(database: Database, version: int) -> list[Finding]:
    """Look at the file, its settings and the disk."""
    return [
        DURABILITY[database.durability],
        _sqlite_version(),
        *_disk(database),
        _log(database),
        *_permissions(database),
        Finding("ok", "schema", f"schema version {version} in {database.path}"),
    ]


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
    """Report a write that the disk did not confirm, until it is repaired."""
    if not database.is_marked:
        return []
    return [
        Finding(
            "fail",
            "disk",
            "the disk failed to confirm a write; writes are refused until everything has reached "
            "the disk, which every write tries again; look at the system's log",
        )
    ]


def _permissions(database: Database) -> list[Finding]:
    """Warn of every file that has wider permissions than it should."""
    if not current().has_owners:
        text = "the rights of their folder decide who can open the files; they are not checked"
        return [Finding("note", "permissions", text)]
    found = list(exposures(database.path, database.access.group))
    if found:
        return [Finding("warn", "permissions", text) for text in found]
    group = database.access.group
    users = "their owner" if group is None else f"their owner and group {group}"
    return [Finding("ok", "permissions", f"only {users} can open the files")]


def _log(database: Database) -> Finding:
    text = f"the write-ahead log has {database.log_bytes / 1e6:,.1f} MB"
    if database.log_pages <= LOG_PAGES_MAX:
        return Finding("ok", "log", text)
    readers = ", ".join(_readers(database.path)) or "not found now"
    return Finding(
        "warn",
        "log",
        f"{text}, more than it should: a program with an open read transaction (a backup, a "
        f"shell) keeps it from being written back to the file; readers: {readers}",
    )


def _readers(path: str) -> list[str]:
    """Return which other processes read a snapshot now, as far as the system shows."""
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
