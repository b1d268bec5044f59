"""Telling of news: behind the commit where that is due, and never of less than there is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest
from tests.store.postgres.conftest import Admin
from tests.worker.support import eventually

from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import NewJob
from fencepost.errors import DuplicateJobError
from fencepost.store.plan import Statement
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.transaction import RELAX
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("migrated")

JOB = NewJob(type="mail")
NEWS = "fencepost_ready"
THREAD = "fencepost-postgres-notifier"
BLOCKED = """
select count(*) from pg_locks where not granted and relation = 'fencepost.submissions'::regclass
"""


@pytest.fixture
def clock() -> FakeClock:
    """Stands still, so that only the first news are sent behind a commit."""
    return FakeClock()


@pytest.fixture
def heard(postgres_url: str, store: PostgresStore) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"listen {NEWS}".encode())
        yield connection


def count(heard: psycopg.Connection, wanted: int) -> int:
    """Wait for so many notifications, and a moment for one too many."""
    found = len(list(heard.notifies(timeout=20.0, stop_after=wanted)))
    return found + len(list(heard.notifies(timeout=0.2)))


def test_a_submission_is_told_once(
    store: PostgresStore, heard: psycopg.Connection, clock: FakeClock
) -> None:
    """S2-31: also the first of its type, which is numbered before; and the next, soon after."""
    for _ in range(3):
        store.run(store.queue.enqueue([JOB]))
        assert count(heard, 1) == 1
    clock.advance(1.0)
    store.run(store.queue.enqueue([JOB]))
    assert count(heard, 1) == 1


def test_a_submission_that_failed_takes_nobody_elses_news(
    store: PostgresStore, heard: psycopg.Connection, clock: FakeClock
) -> None:
    keyed = NewJob(type="mail", key=Key("k", on_duplicate=OnDuplicate.REJECT))
    store.run(store.queue.enqueue([keyed]))
    assert count(heard, 1) == 1
    for _ in range(20):
        clock.advance(1.0)
        with pytest.raises(DuplicateJobError):
            store.run(store.queue.enqueue([JOB, keyed], atomic=True))
    list(heard.notifies(timeout=0.2))
    store.run(store.queue.enqueue([JOB]))
    assert count(heard, 1) == 1


def test_a_postscript_follows_the_commit_and_its_failure_is_nobodys(
    connections: Connections, admin: Admin
) -> None:
    write = Statement("insert into public.note values (%s)", ("kept",))
    for postscript in (
        [RELAX, Statement("insert into public.note values ('after')")],
        [Statement("select 1 / 0")],
        [Statement("select pg_terminate_backend(pg_backend_pid())")],
    ):
        with connections.lend() as session:
            session.ask([write], postscript)
    assert admin.execute(
        "select text, count(*) from public.note group by 1 order by 1"
    ).fetchall() == [
        ("after", 1),
        ("kept", 3),
    ]
    with connections.lend() as session:
        assert session.ask([Statement("select 1")]) == [[(1,)]]


def test_a_failed_statement_does_not_hide_behind_its_postscript(
    connections: Connections, admin: Admin
) -> None:
    bad = [Statement("insert into public.note values ('lost')"), Statement("select 1 / 0")]
    with connections.lend() as session:
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.ask(bad, [Statement("insert into public.note values ('after')")])
        assert session.ask([Statement("select text from public.note")]) == [[("after",)]]


# What is kept for an operation goes with it, whatever becomes of whoever awaits it.


async def test_a_cancelled_submission_leaves_nothing_behind_and_is_told(
    store: PostgresStore, heard: psycopg.Connection, clock: FakeClock, admin: Admin
) -> None:
    """S2-31: it is under way when its caller is cancelled, and stored after that."""
    await store.run_async(store.queue.enqueue([JOB]))
    assert count(heard, 1) == 1
    for spacing in (1.0, 0.0):  # told behind the commit, and by the thread
        clock.advance(spacing)
        with admin.transaction():
            admin.execute("lock table fencepost.submissions in exclusive mode")
            waiting = asyncio.create_task(store.run_async(store.queue.enqueue([JOB])))
            await eventually(lambda: admin.execute(BLOCKED).fetchone() == (1,))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert await asyncio.to_thread(count, heard, 1) == 1
        assert store._sender._sent == set()


def test_a_store_that_is_closed_leaves_nothing_to_do_at_the_end(
    postgres_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that opens and closes many must not keep a little of each."""
    kept: list[object] = []
    monkeypatch.setattr("atexit.register", kept.append)
    monkeypatch.setattr("atexit.unregister", kept.remove)
    before = set(threading.enumerate())  # those of other tests may still be about to end
    for _ in range(3):
        opened = PostgresStore(postgres_url)
        [reply] = opened.run(opened.queue.enqueue([JOB]))
        opened.run(opened.control.cancel([reply.job_id]))  # an end is always told by the thread
        assert len(kept) == 1
        opened.close()
    assert kept == []
    assert [each for each in set(threading.enumerate()) - before if each.name == THREAD] == []
