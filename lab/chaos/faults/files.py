"""What happens to a SQLite file and to those who write it; and to any disk."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from lab.chaos import ledger
from lab.chaos.crew import Member
from lab.chaos.disk import limit_descriptors, limit_files
from lab.chaos.faults.fault import ONE, Fault, NotNow, Scene
from lab.chaos.stage import SqliteStage

LEDGER_ROOM = 256 * 1024
LOOK_TIMEOUT = 20.0
DESCRIPTORS_LEFT = 3
LOOK_INTERVAL = 0.0005


def _file(scene: Scene) -> SqliteStage:
    assert isinstance(scene.stage, SqliteStage)
    return scene.stage


def _stop_a_writer(scene: Scene) -> Member:
    """Stop a process that holds the lock under which all write; return it, still holding it."""
    stage = _file(scene)
    deadline = scene.clock.monotonic() + LOOK_TIMEOUT
    while scene.clock.monotonic() < deadline:
        member = scene.crew.who(stage.holder() or 0)
        if member is not None:
            scene.crew.stop(member)
            if stage.holder() == member.pid:
                return member
            scene.crew.go_on(member)
        scene.clock.sleep(LOOK_INTERVAL)
    raise NotNow("nobody was caught in a write")


def kill_in_write(scene: Scene) -> None:
    """Kill a process in the middle of a write transaction."""
    scene.crew.kill(_stop_a_writer(scene))


def stop_in_write(scene: Scene) -> None:
    """Stop a process in the middle of a write transaction, so that nobody can write."""
    member = _stop_a_writer(scene)
    try:
        scene.wait(0.3, scene.settings.ttl * 1.5)
    finally:
        scene.crew.go_on(member)


def locked_database(scene: Scene) -> None:
    """Hold SQLite's own lock from outside, as a backup or a person with a shell does."""
    with closing(sqlite3.connect(_file(scene).path, isolation_level=None, timeout=10)) as other:
        other.execute("begin immediate")
        scene.wait(0.3, scene.settings.ttl * 1.5)
        other.execute("rollback")


def locked_sidecar(scene: Scene) -> None:
    """Hold the lock before which all writers queue."""
    with _file(scene).lock.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scene.wait(0.3, scene.settings.ttl * 1.5)


def long_reader(scene: Scene) -> None:
    """Keep a snapshot open, so that the log cannot be folded into the file."""
    with closing(sqlite3.connect(_file(scene).path, isolation_level=None, timeout=10)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from jobs").fetchone()
        scene.wait(1.0, 3.0)


def no_descriptors(scene: Scene) -> None:
    """Leave every process only the files that it has open, while all wait for the lock."""
    pids = scene.crew.pids()
    try:
        with _file(scene).lock.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            limit_descriptors(pids, DESCRIPTORS_LEFT)
            scene.wait(0.3, scene.settings.ttl)
        scene.wait(0.1, 0.3)
    finally:
        limit_descriptors(pids, None)


def disk_full(scene: Scene) -> None:
    """Leave no room for another byte."""
    disk = scene.stage.disk
    if not disk.is_mounted:
        _limit_log(scene)
        return
    try:
        with _empty_log(scene):
            is_full = disk.fill()
        if not is_full:
            raise NotNow("the file system grew faster than it could be made small")
        scene.wait(0.5, scene.settings.ttl * 1.5)
    finally:
        if not isinstance(scene.stage, SqliteStage):
            scene.stage.mend()  # a server that found no room for its log has ended
        else:
            disk.free()


@contextmanager
def _empty_log(scene: Scene) -> Iterator[None]:
    """Keep SQLite's log empty for the block, so that the next write needs room at once."""
    if not isinstance(scene.stage, SqliteStage):
        yield
        return
    with scene.stage.lock.open("rb") as lock, closing(sqlite3.connect(scene.stage.path)) as own:
        fcntl.flock(lock, fcntl.LOCK_EX)
        own.execute("pragma wal_checkpoint(truncate)").fetchone()
        yield


def _limit_log(scene: Scene) -> None:
    """Do the same by the limit on the size of files, where nothing can be mounted."""
    if not isinstance(scene.stage, SqliteStage):
        raise NotNow("it takes root to mount a file system that can be filled")
    # Not below the ledgers: they are files too, and must go on.
    longest = max(path.stat().st_size for path in ledger.paths(scene.settings.place))
    pids = scene.crew.pids()
    try:
        with _empty_log(scene):
            limit_files(pids, longest + LEDGER_ROOM)
        scene.wait(0.5, scene.settings.ttl * 1.5)
    finally:
        limit_files(pids, None)


SQLITE = ("sqlite",)
FILE_FAULTS = (
    Fault("kill_in_write", kill_in_write, SQLITE, weight=2),
    Fault("stop_in_write", stop_in_write, SQLITE, is_wide=True),
    Fault("locked_database", locked_database, SQLITE, is_wide=True),
    Fault("locked_sidecar", locked_sidecar, SQLITE, is_wide=True),
    Fault("long_reader", long_reader, SQLITE),
    Fault("no_descriptors", no_descriptors, SQLITE, is_wide=True),
    Fault("disk_full", disk_full, is_wide=True, layouts=ONE),
)
