"""A disk that does not confirm a write. SQLite-specific: we force its log to the disk ourselves."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.store.sqlite.faulty_disk import faulty_disk

from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Body, NewJob
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Operation
from fencepost.store.sqlite.engine.log import DataFile
from fencepost.store.sqlite.store import SqliteStore

MEET_AN_ERROR_AND_DIE = """
import os, signal, sys
from fencepost.core.job.job import NewJob
from fencepost.errors import UnknownOutcomeError
from fencepost.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
def fail(fd):
    raise OSError(5, "Input/output error")
os.fdatasync = fail
try:
    store.run(store.queue.enqueue([NewJob(type="t")]))
except UnknownOutcomeError:
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Disk:
    """Answers for ``fdatasync``: fails as often as it is told to."""

    def __init__(self) -> None:
        self.failures = 0
        self._forced = os.fdatasync

    def fdatasync(self, fd: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(5, "Input/output error")
        self._forced(fd)


FOR_GOOD = 1_000_000


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    yield disk
    disk.failures = 0  # so that stores can be closed


def run(store: SqliteStore, operation: Operation[Any], colour: str) -> object:
    if colour == "sync":
        return store.run(operation)
    return asyncio.run(store.run_async(operation))


def enqueue(store: SqliteStore) -> Operation[Any]:
    return store.queue.enqueue([NewJob(type="t")])


def claim(store: SqliteStore) -> Operation[Any]:
    return store.queue.claim(ClaimRequest(worker="w", limit=1))


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("write", [enqueue, claim])
def test_while_the_disk_fails_every_write_is_refused_and_reads_go_on(
    store: SqliteStore,
    disk: Disk,
    colour: str,
    write: Callable[[SqliteStore], Operation[Any]],
) -> None:
    """C38: after the first, whose outcome is unknown, surely not done."""
    disk.failures = FOR_GOOD
    with pytest.raises(UnknownOutcomeError):
        run(store, enqueue(store), colour)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="refused until"):
            run(store, write(store), colour)
    assert run(store, store.reader.count(JobFilter()), colour) == 1
    assert [each.level for each in store.run(store.overview.inspect()) if each.code == "disk"] == [
        "fail"
    ]
    disk.failures = 0
    run(store, write(store), colour)
    assert [each for each in store.run(store.overview.inspect()) if each.code == "disk"] == []


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_after_an_error_all_of_the_log_is_brought_to_the_file_before_the_next_write(
    store: SqliteStore, path: str, disk: Disk, colour: str
) -> None:
    """S0-4: forcing once more does nothing for pages that the system takes for written."""
    disk.failures = 1
    with pytest.raises(UnknownOutcomeError):
        run(store, enqueue(store), colour)
    (seq,) = wal_sequence(path)
    run(store, enqueue(store), colour)
    # A log that was started again: what was in it is in the file.
    assert wal_sequence(path) != (seq,)
    assert count_without_the_log(path) == 1
    assert run(store, store.reader.count(JobFilter()), colour) == 2


def wal_sequence(path: str) -> tuple[bytes, ...]:
    return (Path(f"{path}-wal").read_bytes()[12:24],)


def count_without_the_log(path: str) -> int:
    copy = f"{path}.copy"
    Path(copy).write_bytes(Path(path).read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        (count,) = connection.execute("select count(*) from jobs").fetchone()
    return int(count)


def test_a_thread_that_was_not_told_of_the_error_does_not_acknowledge_either(
    store: SqliteStore, disk: Disk
) -> None:
    """The system reports an error once for a descriptor, whoever of its users asks first."""
    database = store._database
    database.transact([enqueue(store)])
    database.transact([enqueue(store)])
    disk.failures = 1
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError):
            database.sync()


def test_who_did_not_meet_the_error_refuses_as_well(
    store: SqliteStore, path: str, disk: Disk
) -> None:
    """A claim does not wait for the disk, and would not notice by itself."""
    other = SqliteStore(path)
    disk.failures = FOR_GOOD
    with pytest.raises(UnknownOutcomeError):
        store.run(enqueue(store))
    with pytest.raises(StoreUnavailableError, match="refused until"):
        other.run(claim(other))
    disk.failures = 0
    assert other.run(claim(other)).jobs
    other.close()


def test_other_processes_refuse_as_well_and_those_that_come_later(
    store: SqliteStore, path: str, disk: Disk
) -> None:
    """The one that met the error dies at once: what it knew is written down for the others."""
    done = subprocess.run([sys.executable, "-c", MEET_AN_ERROR_AND_DIE, path], timeout=60)
    assert done.returncode == -signal.SIGKILL
    disk.failures = FOR_GOOD
    with pytest.raises(StoreUnavailableError, match="refused until"):
        store.run(enqueue(store))
    later = SqliteStore(path)
    assert later.run(later.reader.count(JobFilter())) == 1
    with pytest.raises(StoreUnavailableError, match="refused until"):
        later.run(enqueue(later))
    disk.failures = 0
    later.run(enqueue(later))
    store.run(enqueue(store))
    assert store.run(store.reader.count(JobFilter())) == 3
    later.close()


def test_a_process_that_opens_the_file_meanwhile_starts_with_the_repair(
    path: str, disk: Disk
) -> None:
    done = subprocess.run([sys.executable, "-c", MEET_AN_ERROR_AND_DIE, path], timeout=60)
    assert done.returncode == -signal.SIGKILL
    (seq,) = wal_sequence(path)
    store = SqliteStore(path)
    store.run(enqueue(store))
    assert wal_sequence(path) != (seq,)
    store.close()
    again = SqliteStore(path)
    assert again.run(again.reader.count(JobFilter())) == 2
    again.close()


def test_the_log_is_whole_on_the_disk_before_the_file_changes(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut during the checkpoint finds the log's first part and a file with all of it.

    SQLite would put pages of the first part over newer ones: a mixture.
    """
    store.run(enqueue(store))
    store._database._lock.mark()
    before = Path(path).read_bytes()
    written: list[tuple[int, int]] = []
    pwrite, fdatasync, events = os.pwrite, os.fdatasync, []

    def write(fd: int, data: bytes, offset: int) -> int:
        if fd == store._database._log.fd:
            written.append((offset, offset + len(data)))
        return pwrite(fd, data, offset)

    def force(fd: int) -> None:
        events.append((list(written), Path(path).read_bytes() == before, _size(path)))
        fdatasync(fd)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "fdatasync", force)
    store.run(enqueue(store))
    pieces, is_unchanged, size = next(event for event in events if event[0])
    assert is_unchanged
    assert pieces[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(pieces))
    assert pieces[-1][1] == size


def _size(path: str) -> int:
    return os.stat(f"{path}-wal").st_size


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_log_of_which_the_disk_lost_a_part_is_not_put_to_the_file(
    store: SqliteStore, path: str, part: float
) -> None:
    """What memory dropped is read from the disk as it was before; the checksums show it."""
    for _ in range(5):
        store.run(enqueue(store))
    store._database._lock.mark()
    content = Path(f"{path}-wal").read_bytes()
    before = Path(path).read_bytes()
    frame = 24 + 4096
    start = 32 + int(part * (len(content) - 32) // frame) * frame
    with open(f"{path}-wal", "r+b") as log:
        log.seek(start)
        log.write(bytes(frame))
    with pytest.raises(StoreUnavailableError, match="lost part of the log"):
        store.run(enqueue(store))
    assert Path(path).read_bytes() == before
    with open(f"{path}-wal", "r+b") as log:
        log.write(content)
    store.run(enqueue(store))
    assert store.run(store.reader.count(JobFilter())) == 6


def test_a_log_that_the_disk_confirms_and_did_not_keep_is_not_put_to_the_file(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After forcing it is read back from the disk, not from memory."""
    for _ in range(5):
        store.run(enqueue(store))
    store._database._lock.mark()
    before = Path(path).read_bytes()

    def forget(fd: int, start: int = 0, length: int = 0) -> None:
        if not length:
            os.pwrite(fd, bytes(4096), 8 * 4096)

    monkeypatch.setattr("fencepost.store.sqlite.engine.log.drop_cache", forget)
    with pytest.raises(StoreUnavailableError, match="lost part of the log"):
        store.run(enqueue(store))
    assert Path(path).read_bytes() == before


def test_a_repair_that_failed_writes_nothing_over_a_log_that_another_has_begun_anew(
    store: SqliteStore, path: str, disk: Disk
) -> None:
    """It has a copy of the log as it was; another process may have repaired it meanwhile."""
    for _ in range(5):
        store.run(enqueue(store))
    disk.failures = FOR_GOOD
    store._database._lock.mark()
    with pytest.raises(StoreUnavailableError):
        store.run(enqueue(store))
    disk.failures = 0
    with closing(SqliteStore(path)) as other:
        for _ in range(3):
            other.run(enqueue(other))
        store._database._lock.mark()
        store.run(enqueue(store))
        assert other.run(other.reader.count(JobFilter())) == 9
    assert store._database.pragma("integrity_check") == "ok"


def test_a_file_that_the_disk_confirms_and_did_not_keep_is_written_once_more(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the log, which has it all, is started again."""
    for _ in range(5):
        store.run(enqueue(store))
    store._database._lock.mark()
    times: list[int] = []

    def forget(file: DataFile) -> None:
        times.append(file._fd)
        if len(times) == 2:  # after the checkpoint: what memory had is not what the disk has
            os.pwrite(file._fd, bytes(4 * 4096), 4096)

    monkeypatch.setattr(DataFile, "drop_cache", forget)
    store.run(enqueue(store))
    assert len(times) == 3
    assert store._database.pragma("integrity_check") == "ok"
    assert store.run(store.reader.count(JobFilter())) == 6
    assert count_without_the_log(path) == 5


def test_a_reader_that_stays_keeps_writes_refused_and_is_named(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole checkpoint needs the readers of the log to leave."""
    monkeypatch.setattr("fencepost.store.sqlite.engine.checkpoints.LOG_WAIT", 0.01)
    store.run(enqueue(store))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from jobs").fetchone()
        store._database._lock.mark()
        with pytest.raises(StoreUnavailableError, match="reads the database"):
            store.run(enqueue(store))
    store.run(enqueue(store))


def test_closing_with_a_failed_disk_makes_no_checkpoint(path: str, disk: Disk) -> None:
    """The last one to close would put to the file what the log on the disk may lack."""
    store = SqliteStore(path)
    store.run(enqueue(store))
    before = Path(path).read_bytes()
    disk.failures = FOR_GOOD
    with pytest.raises(UnknownOutcomeError):
        store.run(enqueue(store))
    store.close()
    assert Path(path).read_bytes() == before
    disk.failures = 0
    again = SqliteStore(path)
    again.run(enqueue(again))
    assert again.run(again.reader.count(JobFilter())) == 3
    again.close()


MEET_AN_ERROR_AND_END = MEET_AN_ERROR_AND_DIE.replace(
    "os.kill(os.getpid(), signal.SIGKILL)", "sys.argv[2] == 'closing' and store.close()"
).replace(
    "os.fdatasync = fail", "store.run(store.queue.enqueue([NewJob(type='t')]))\nos.fdatasync = fail"
)


@pytest.mark.parametrize("how", ["closing", "leaving"])
def test_the_end_of_a_process_with_a_failed_disk_makes_no_checkpoint(path: str, how: str) -> None:
    """Nor does the interpreter's, which collects connections that nobody closed."""
    SqliteStore(path).close()
    before = Path(path).read_bytes()
    command = [sys.executable, "-c", MEET_AN_ERROR_AND_END, path, how]
    assert subprocess.run(command, timeout=60).returncode == 0
    assert Path(path).read_bytes() == before
    store = SqliteStore(path)
    store.run(enqueue(store))
    assert store.run(store.reader.count(JobFilter())) == 3
    store.close()


def test_an_error_inside_a_checkpoint_of_sqlite_counts_as_well(store: SqliteStore) -> None:
    """It forces the log and the file itself, and says so in the code of its error."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC

    class Broken:
        def reaches(self, frames: int) -> bool:
            raise error

    store._database._checkpoints._log = Broken()  # type: ignore[assignment] # stands for SQLite's
    with pytest.raises(UnknownOutcomeError):
        store.run(enqueue(store))
    store._database._checkpoints._log = store._database._log
    store.run(enqueue(store))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_on_a_disk_that_really_failed_nothing_acknowledged_is_lost_in_a_power_cut(
    tmp_path: Path, colour: str
) -> None:
    """S0-3, S0-4: what is acknowledged after an error is on the disk, with all it builds on."""
    with faulty_disk(tmp_path) as disk:
        path = str(disk.folder / "jobs.db")
        store, other = SqliteStore(path), SqliteStore(path)
        acknowledged: set[str] = set()
        errors: list[Exception] = []

        def submit(store: SqliteStore) -> None:
            job = NewJob(type="t", payload=Body(b'"' + b"x" * 20_000 + b'"'))
            try:
                replies = run(store, store.queue.enqueue([job]), colour)
            except (UnknownOutcomeError, StoreUnavailableError) as error:
                errors.append(error)
                return
            assert isinstance(replies, list)
            acknowledged.update(reply.job_id for reply in replies)

        submit(store)
        submit(other)
        disk.fail()
        for _ in range(5):
            submit(store)
        submit(other)
        assert errors
        disk.mend()
        for _ in range(5):
            submit(store)
            submit(other)
        latecomer = SqliteStore(path)
        submit(latecomer)
        submit(store)
        assert len(acknowledged) >= 8, errors
        kept = disk.cut_power()
        survivor = SqliteStore(str(kept / "jobs.db"))
        found = survivor.run(survivor.reader.get(sorted(acknowledged)))
        assert [job for job in found if job is None] == []
        assert survivor._database.pragma("integrity_check") == "ok"
        for each in (survivor, latecomer, other, store):
            each.close()


def test_a_checkpoint_that_really_failed_is_made_again_on_the_disk_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log could be forced, the file could not: SQLite copies again what memory takes for there.

    ext4 confirms that, and shows zeros after a restart, unless memory has forgotten it before.
    """
    with faulty_disk(tmp_path) as disk:
        store = SqliteStore(str(disk.folder / "jobs.db"))
        job = NewJob(type="t", payload=Body(b'"' + b"x" * 20_000 + b'"'))
        acknowledged: set[str] = set()

        def submit() -> bool:
            try:
                (reply,) = store.run(store.queue.enqueue([job]))
            except (UnknownOutcomeError, StoreUnavailableError):
                return False
            acknowledged.add(reply.job_id)
            return True

        assert all(submit() for _ in range(20))
        # From here on the log is used again from its start, in blocks that it has.
        monkeypatch.setattr("fencepost.store.sqlite.engine.checkpoints.CHECKPOINT_PAGES", 100)
        assert all(submit() for _ in range(2))
        disk.fail()
        while submit():
            assert len(acknowledged) < 100, "no checkpoint has failed"
        assert not submit()
        disk.mend()
        assert all(submit() for _ in range(2))
        kept = disk.cut_power()
        survivor = SqliteStore(str(kept / "jobs.db"))
        assert None not in survivor.run(survivor.reader.get(sorted(acknowledged)))
        assert survivor._database.pragma("integrity_check") == "ok"
        survivor.close()
        store.close()
