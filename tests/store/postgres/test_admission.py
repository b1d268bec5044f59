"""Slots of concurrency keys in PostgreSQL, where others may have them in hand.

Nobody waits for a slot. These are the ways in which one is in somebody's hand for long, which a
store with one writer at a time does not know; after each, the next claim finds what was left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.postgres.limits.concurrency import slot_number
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("migrated")

Conn = psycopg.Connection[tuple[Any, ...]]

KEYED = NewJob(type="mail", concurrency_key="tenant:7")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def conn(postgres_url: str, store: PostgresStore) -> Iterator[Conn]:
    with psycopg.connect(postgres_url) as connection:
        yield connection


def submit(store: PostgresStore, count: int = 1) -> list[str]:
    return [reply.job_id for reply in store.run(store.queue.enqueue([KEYED] * count))]


def claim(store: PostgresStore) -> list[ClaimedJob]:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=10))).jobs


def success(store: PostgresStore, claimed: ClaimedJob) -> Settlement:
    decision = decide(claimed, Succeeded(NULL), store.clock.rng)
    return Settlement(claimed.id, claimed.lease.token, decision)


def state(store: PostgresStore, job_id: str) -> State:
    [job] = store.run(store.reader.get([job_id]))
    assert job is not None
    return job.state


def test_a_callers_open_transaction_holds_up_no_other_job_of_the_key(
    store: PostgresStore, conn: Conn
) -> None:
    submit(store, 2)
    [running] = claim(store)
    [reply] = store.run_in(conn, lambda view: view.queue.enqueue([KEYED]))
    assert reply.state is State.PENDING
    store.run(store.queue.settle([success(store, running)]))  # waits for nobody
    [following] = claim(store)
    store.run(store.queue.settle([success(store, following)]))
    assert claim(store) == []
    conn.commit()
    [last] = claim(store)
    assert last.id == reply.job_id


def test_a_callers_transaction_that_is_rolled_back_leaves_nothing(
    store: PostgresStore, conn: Conn
) -> None:
    store.run_in(conn, lambda view: view.queue.enqueue([KEYED]))
    conn.rollback()
    [job_id] = submit(store)
    assert [each.id for each in claim(store)] == [job_id]


@pytest.mark.parametrize(
    "level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=lambda x: x.name
)
def test_a_job_can_be_completed_in_a_transaction_that_reads_an_old_snapshot(
    store: PostgresStore, conn: Conn, level: IsolationLevel
) -> None:
    conn.isolation_level = level
    job_ids = submit(store, 3)
    [first] = claim(store)
    conn.execute("select count(*) from fencepost.submissions")  # the snapshot is taken here
    submit(store)  # and the slot's row is changed since
    store.run_in(conn, lambda view: view.queue.settle([success(store, first)]))
    conn.commit()
    assert state(store, job_ids[0]) is State.COMPLETED
    assert [each.id for each in claim(store)] == [job_ids[1]]


def test_a_slot_in_somebodys_hand_is_not_waited_for(store: PostgresStore, conn: Conn) -> None:
    job_ids = submit(store, 2)
    [first] = claim(store)
    slot = slot_number("mail", "tenant:7")
    conn.execute("select 1 from fencepost.slots where slot = %s for update", (slot,))
    store.run(store.queue.settle([success(store, first)]))
    assert state(store, job_ids[1]) is State.PENDING
    assert claim(store) == []
    conn.rollback()
    assert [each.id for each in claim(store)] == [job_ids[1]]


def test_a_waiting_job_in_somebodys_hand_is_looked_at_again(
    store: PostgresStore, conn: Conn
) -> None:
    """As by whoever submits a job that is to wait for it, and has not committed yet."""
    job_ids = submit(store, 2)
    [first] = claim(store)
    conn.execute("select 1 from fencepost.pending for share")
    store.run(store.queue.settle([success(store, first)]))
    assert claim(store) == []
    assert claim(store) == []
    conn.rollback()
    assert [each.id for each in claim(store)] == [job_ids[1]]


def test_notes_and_counts_are_gone_when_all_is_done(store: PostgresStore, conn: Conn) -> None:
    submit(store, 5)
    for _ in range(5):
        [claimed] = claim(store)
        store.run(store.queue.settle([success(store, claimed)]))
    assert claim(store) == []
    assert conn.execute("select active from fencepost.slots").fetchall() == [(0,)]
    assert conn.execute("select count(*) from fencepost.freed_slots").fetchall() == [(0,)]
    assert conn.execute("select count(*) from fencepost.pending").fetchall() == [(0,)]


def test_the_number_of_a_key_never_changes() -> None:
    """It is stored: another one would let a key have twice its slots."""
    assert slot_number("mail", "tenant:7") == -3166374596310312107
    assert slot_number("mail", "tenant:7") != slot_number("mailtenant:", "7")
    assert -(2**63) <= slot_number("größe", "ключ") < 2**63
