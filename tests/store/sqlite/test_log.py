"""How long the write-ahead log becomes. SQLite-specific: other engines recycle theirs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from fencepost.core.job.job import Body, NewJob
from fencepost.store.interface.records.overview import Finding
from fencepost.store.sqlite.engine import checkpoints, database
from fencepost.store.sqlite.store import SqliteStore

FRAME = 24 + 4096
CHECKPOINT_PAGES, LOG_PAGES_MAX = 100, 400
STAY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin")
connection.execute("select count(*) from jobs").fetchone()
print("reading", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with fewer pages: the real sizes take a second of writing each time."""
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", CHECKPOINT_PAGES)
    monkeypatch.setattr(checkpoints, "LOG_PAGES_MAX", LOG_PAGES_MAX)
    monkeypatch.setattr(checkpoints, "LOOK_CHANGES", 0)
    monkeypatch.setattr(database, "LOG_KEPT_BYTES", LOG_PAGES_MAX // 2 * FRAME)


def frames(path: str) -> int:
    return os.stat(f"{path}-wal").st_size // FRAME


def submit(store: SqliteStore) -> None:
    """Store a job that takes a dozen pages."""
    store.run(store.queue.enqueue([NewJob(type="t", payload=Body(b'"' + b"x" * 20_000 + b'"'))]))


@contextmanager
def overlapping_readers(path: str) -> Iterator[None]:
    """Read all the time: each snapshot begins before the last one ends.

    Each lasts for some writes. If it lasted for none, readers would now and then find the whole log
    in the file, use the file alone, and let the log start again.
    """
    stop, began = threading.Event(), threading.Event()

    def read() -> None:
        pair = [sqlite3.connect(path, isolation_level=None, timeout=60) for _ in range(2)]
        pair[1].execute("begin")
        pair[1].execute("select 1 from jobs limit 1").fetchall()
        while not stop.is_set():
            for next_one, last in (pair, pair[::-1]):
                next_one.execute("begin")
                next_one.execute("select 1 from jobs limit 1").fetchall()
                last.execute("rollback")
                stop.wait(0.005)
            began.set()
        for each in pair:
            each.close()

    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(60)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_beside_readers_that_overlap_the_log_stays_below_its_limit(path: str) -> None:
    """Without a wait for them there is never a moment at which it could start again."""
    store = SqliteStore(path)
    longest = 0
    with overlapping_readers(path):
        for _ in range(300):
            submit(store)
            longest = max(longest, frames(path))
    store.close()
    # Twice: a reader that the machine leaves aside for half a second keeps the log for so long.
    assert longest < 2 * LOG_PAGES_MAX


def test_without_readers_the_log_is_used_again_from_its_start(path: str) -> None:
    store = SqliteStore(path)
    for _ in range(100):
        submit(store)
    assert frames(path) < 2 * CHECKPOINT_PAGES
    store.close()


def finding(store: SqliteStore, code: str) -> Finding:
    (found,) = [each for each in store.run(store.overview.inspect()) if each.code == code]
    return found


def test_a_reader_that_stays_is_waited_for_now_and_then_and_named(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes go on; `doctor` says how long the log is, and which process keeps it."""
    monkeypatch.setattr(checkpoints, "LOG_WAIT", 0.01)
    monkeypatch.setattr("fencepost.store.sqlite.records.doctor.LOG_PAGES_MAX", LOG_PAGES_MAX)
    store = SqliteStore(path)
    submit(store)
    assert finding(store, "log").level == "ok"
    waits: list[str] = []
    run = checkpoints.Checkpoints._run

    def note(self: checkpoints.Checkpoints, mode: str) -> bool:
        waits.append(mode)
        return run(self, mode)

    monkeypatch.setattr(checkpoints.Checkpoints, "_run", note)
    command = [sys.executable, "-c", STAY, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for _ in range(100):
            submit(store)
        assert frames(path) > 2 * LOG_PAGES_MAX
        # Once at the limit, and once for each hundred pages after it: twelve pages a write.
        assert waits.count("truncate") <= 1 + (frames(path) - LOG_PAGES_MAX) // CHECKPOINT_PAGES
        found = finding(store, "log")
        assert found.level == "warn"
        assert f"process {reader.pid}" in found.text
        reader.communicate(timeout=60)
    # All of it is folded in at the next look; the write after that begins it again.
    for _ in range(20):
        submit(store)
    assert frames(path) < LOG_PAGES_MAX
    assert finding(store, "log").level == "ok"
    store.close()


def test_a_checkpoint_that_fails_takes_no_write_back(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands: to call it unavailable would say that it was surely not done."""

    def fail(self: checkpoints.Checkpoints, mode: str) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(checkpoints.Checkpoints, "_run", fail)
    store = SqliteStore(path)
    for _ in range(20):
        submit(store)
    assert [sum(view.counts.values()) for view in store.run(store.overview.types())] == [20]
    store.close()


def test_a_log_is_measured_by_its_own_frames(path: str) -> None:
    """Frames from before it was started again stand behind its end, with other salts."""
    store = SqliteStore(path)
    log = store._database._log
    with closing(sqlite3.connect(path)) as other:  # away with the pages of the tables
        other.execute("pragma wal_checkpoint(truncate)").fetchone()
    for _ in range(3):  # fewer pages than are checkpointed
        submit(store)
    count = frames(path)
    assert log.reaches(count)
    assert not log.reaches(count + 1)
    with closing(sqlite3.connect(path)) as other:
        other.execute("pragma wal_checkpoint(restart)").fetchone()
    submit(store)
    assert frames(path) == count
    assert log.reaches(1)
    assert not log.reaches(count)
    store.close()
