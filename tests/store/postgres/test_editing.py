"""Edits beside transactions that are open: who waits for whom, and what is read after the wait.

Store-specific: only here can two writers be under way at once, and be stopped half-way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.cli.support import wait_until

from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Priority
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.fixture
def conn(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url) as connection:
        yield connection


def submit(store: PostgresStore, **fields: Any) -> str:
    (reply,) = store.run(store.queue.enqueue([NewJob(**{"type": "work", **fields})]))
    return reply.job_id


def test_of_two_parents_edited_at_once_both_are_heard(
    store: PostgresStore, conn: psycopg.Connection[Any], postgres_url: str
) -> None:
    """S1-37: whoever has waited for the other looks again."""
    one, two = submit(store), submit(store)
    child = submit(store, after=Dependencies((one, two)), priority=Priority.BULK)
    store.run_in(conn, lambda view: view.control.edit([Edit(one, Priority.CRITICAL)]))
    thread = threading.Thread(
        target=lambda: store.run(store.control.edit([Edit(two, Priority.HIGH)]))
    )
    thread.start()
    with psycopg.connect(postgres_url, autocommit=True) as witness:
        wait_until(lambda: witness.execute(WAITING).fetchone() == (1,), "the other edit to wait")
    conn.commit()
    thread.join(30)
    assert not thread.is_alive()
    (job,) = store.run(store.reader.get([child]))
    assert job is not None
    assert job.priority is Priority.CRITICAL


def test_a_claim_passes_over_a_job_that_is_being_edited(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    """C46: it waits for nobody, and hands out what was committed."""
    job_id = submit(store, payload=Body(b"1"))
    store.run_in(conn, lambda view: view.control.edit([Edit(job_id, payload=Body(b"2"))]))
    request = ClaimRequest(worker="w", limit=1)
    assert store.run(store.queue.claim(request)).jobs == []
    conn.commit()
    (job,) = store.run(store.queue.claim(request)).jobs
    assert job.payload == Body(b"2")


def test_an_edited_job_in_line_stands_in_a_row_that_older_snapshots_do_not_see(
    store: PostgresStore, conn: psycopg.Connection[Any]
) -> None:
    """C46: a claim that began before would else lock the row and hand out the old payload."""
    job_id = submit(store, payload=Body(b"1"))
    before = conn.execute("select ctid from fencepost.ready").fetchall()
    conn.rollback()
    store.run(store.control.edit([Edit(job_id, payload=Body(b"2"))]))
    assert conn.execute("select ctid from fencepost.ready").fetchall() != before
