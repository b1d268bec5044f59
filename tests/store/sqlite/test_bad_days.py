"""What a file can do to a store. SQLite-specific: it is the engine that has a file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.errors import (
    ConfigurationError,
    SchemaError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.sqlite.store import SqliteStore


def change(path: str, sql: str) -> None:
    """Change the file behind the store's back."""
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


def test_a_folder_that_does_not_exist_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot open"):
        SqliteStore(str(tmp_path / "nowhere" / "jobs.db"))


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: str) -> None:
    Path(path).write_text("dear diary, " * 100)
    with pytest.raises(StoreUnavailableError, match="not a Fencepost store"):
        SqliteStore(path)
    assert Path(path).read_text().startswith("dear diary")


def test_a_newer_schema_is_refused(path: str) -> None:
    SqliteStore(path).close()
    change(path, "insert into schema_version values (9999, 'from the future', 0)")
    with pytest.raises(SchemaError, match="upgrade Fencepost"):
        SqliteStore(path)


def test_a_schema_of_a_development_version_is_refused(path: str) -> None:
    SqliteStore(path).close()
    change(path, "update schema_version set name = '0001_initial'")
    with pytest.raises(SchemaError, match="begin with a new file"):
        SqliteStore(path)


def test_a_full_disk_is_unavailable_and_what_was_stored_stays(store: SqliteStore) -> None:
    """S0-56."""
    store.run(store.queue.enqueue([NewJob(type="t")]))
    writer = store._database._writer
    (pages,) = writer.execute("pragma page_count").fetchone()
    writer.execute(f"pragma max_page_count = {pages}")
    big = NewJob(type="t", payload=Body(b"[" + b"1," * 50_000 + b"1]"))
    with pytest.raises(StoreUnavailableError, match="full"):
        store.run(store.queue.enqueue([big] * 20))
    writer.execute("pragma max_page_count = 1000000")
    assert store.run(store.reader.count(JobFilter())) == 1
    assert len(store.run(store.queue.enqueue([big]))) == 1


def test_a_read_only_database_is_unavailable(store: SqliteStore) -> None:
    store._database._writer.execute("pragma query_only = on")
    with pytest.raises(StoreUnavailableError, match="read-only"):
        store.run(store.queue.enqueue([NewJob(type="t")]))


def test_another_program_that_locks_the_file_makes_it_unavailable(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.store.sqlite.engine.connection.BUSY_TIMEOUT", 0.05)
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailableError, match="another program"):
        store.run(store.queue.enqueue([NewJob(type="t")]))
    other.execute("rollback")
    other.close()
    assert store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_disk_that_does_not_confirm_leaves_the_outcome_unknown(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """C38: committed but not confirmed is neither done nor not done."""

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    operation = store.queue.enqueue([NewJob(type="t")])
    with pytest.raises(UnknownOutcomeError):
        store.run(operation) if colour == "sync" else asyncio.run(store.run_async(operation))


@pytest.mark.parametrize(
    "damage",
    [
        "update jobs set tags = '{'",
        "update policies set body = 'nonsense'",
        "update jobs set priority = 77",
        "update jobs set payload_encoding = 9",
        "update jobs set payload = 12",
        "update jobs set payload = x'ff00ff', tags = cast(x'7b' as text)",
        "update jobs set correlation_id = cast(x'ff' as text)",
    ],
)
def test_a_row_that_cannot_be_read_fails_alone(path: str, damage: str) -> None:
    """S1-87: that job fails for good, the next is handed out."""
    before = SqliteStore(path)
    (reply,) = before.run(before.queue.enqueue([NewJob(type="t", tags={"a": "b"})]))
    before.close()
    change(path, damage)
    store = SqliteStore(path)
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5)))
    assert claim.jobs == []
    assert [(moved.job_id, moved.state) for moved in claim.corrupt] == [
        (reply.job_id, State.FAILED)
    ]
    (letter,) = store.run(store.reader.dead_letters(None, PageRequest())).letters
    assert letter.failure.code == "corrupt"
    (fresh,) = store.run(store.queue.enqueue([NewJob(type="other", policy=Policy(max_attempts=7))]))
    (claimed,) = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5))).jobs
    assert claimed.id == fresh.job_id
    store.close()


@pytest.mark.parametrize("column", ["payload", "checkpoint"])
def test_content_that_is_no_text_keeps_no_other_job_waiting(path: str, column: str) -> None:
    """S1-87: a payload that cannot be read fails its job, and every other job is handed out."""
    before = SqliteStore(path)
    first, second = before.run(before.queue.enqueue([NewJob(type="t"), NewJob(type="t")]))
    before.close()
    damaged = f"{column} = cast(x'ff00' as text), {column}_encoding = 0"
    change(path, f"update jobs set {damaged} where seq = (select min(seq) from jobs)")
    store = SqliteStore(path)
    claimed = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5))).jobs
    expected = [second.job_id] if column == "payload" else [first.job_id, second.job_id]
    assert [job.id for job in claimed] == expected
    [seen] = store.run(store.reader.get([first.job_id]))
    assert seen is not None
    assert seen.state is (State.FAILED if column == "payload" else State.RUNNING)
    store.close()


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.run(store.overview.queues())
    with pytest.raises(StoreUnavailableError, match="closed"):
        asyncio.run(store.run_async(store.overview.queues()))
    store.close()


def test_an_unknown_durability_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="power or process"):
        SqliteStore(path, durability="hope")
