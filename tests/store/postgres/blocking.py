"""Somebody who has a row in hand, and others who are seen to wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from tests.worker.support import LONG, eventually_sync

from fencepost.clock import SystemClock
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide

T = TypeVar("T")

DONE = Succeeded(Body(b"7"))
REFUSED = Failed(Failure(Category.PERMANENT, "no"))
WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


def apart(act: Callable[[], T]) -> Future[T]:
    """Run *act* in a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - the test's own thread is told
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def waiting(url: str) -> int:
    """Return how many sessions of a database wait for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(WAITING).fetchone()
        assert row is not None
        return int(row[0])


def see_waiting(url: str, count: int = 1) -> None:
    """Return once *count* sessions wait for a lock."""
    eventually_sync(lambda: waiting(url) >= count, f"{count} sessions that wait for a lock")


@contextmanager
def open_transaction(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend a connection whose transaction is open until the test ends it, or the block does."""
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def settlement(claimed: ClaimedJob, outcome: Outcome = DONE) -> Settlement:
    """Return what settles a claimed job."""
    decision = decide(claimed, outcome, SystemClock().rng)
    return Settlement(claimed.id, claimed.lease.token, decision)


def answer(future: Future[T]) -> T:
    """Return what was done apart, once it is."""
    return future.result(LONG)
