"""Jobs are found by when they were created, also when the clock was set back.

Store-specific: only a store that numbers its jobs in the order of creation can be mistaken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    yield store
    store.close()


def submit(store: SqliteStore, count: int = 20) -> None:
    for _ in range(count):
        store.run(store.queue.enqueue([NewJob(type="mail")]))
        store.clock.sleep(60.0)


def check(store: SqliteStore, at: datetime) -> None:
    """See that both sides of a time are found whole."""
    page = PageRequest(PAGE_MAX)
    jobs = store.run(store.reader.find(JobFilter(), page)).jobs
    later = store.run(store.reader.find(JobFilter(created_after=at), page)).jobs
    earlier = store.run(store.reader.find(JobFilter(created_before=at), page)).jobs
    assert later == [job for job in jobs if job.created_at >= at]
    assert earlier == [job for job in jobs if job.created_at < at]


@pytest.mark.parametrize("is_reopened", [False, True], ids=["seen", "while nobody looked"])
@pytest.mark.parametrize("by", [0.4, 2.0, 60.0, 8 * HOUR], ids=str)
def test_jobs_created_after_the_clock_was_set_back_are_found(
    store: SqliteStore, clock: FakeClock, tmp_path: Path, by: float, is_reopened: bool
) -> None:
    """S1-107."""
    submit(store)
    clock.set_back(by + 60.0)
    if is_reopened:
        store.close()
        store = SqliteStore(str(tmp_path / "jobs.db"), clock=clock)
    submit(store)
    for minutes in range(-500, 50, 7):
        check(store, clock.now() + timedelta(minutes=minutes))
    store.close()


def test_a_number_that_is_given_out_again_belongs_to_its_new_time(
    store: SqliteStore, clock: FakeClock
) -> None:
    """S1-107: what was noted of rows that are gone says nothing of those that come."""
    submit(store)
    clock.set_back(HOUR)
    submit(store)
    jobs = store.run(store.reader.find(JobFilter(), PageRequest(PAGE_MAX))).jobs
    store.run(store.control.cancel([job.id for job in jobs]))
    clock.advance(HOUR)
    keep = {State.CANCELLED: 0.0}
    assert store.run(store.upkeep.prune(PruneRequest(keep=keep, limit=100))).count == len(jobs)
    clock.advance(HOUR)
    submit(store)
    assert len(store.run(store.reader.find(JobFilter(), PageRequest(PAGE_MAX))).jobs) == 20
    for minutes in range(-60, 10):
        check(store, clock.now() + timedelta(minutes=minutes))


def test_a_steady_clock_notes_nothing(store: SqliteStore, clock: FakeClock, tmp_path: Path) -> None:
    """So that a search goes on to be quick: what is noted is walked through."""
    submit(store)
    clock.set_back(0.3)
    submit(store)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        assert connection.execute("select * from disorder").fetchall() == []
