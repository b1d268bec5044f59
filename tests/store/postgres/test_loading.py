"""What is loaded is found, whatever the marks do meanwhile. Only this store has marks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import JobRecord, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import Policy
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.postgres.joins.transaction import run_in
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("quiet", "migrated")

JOB = NewJob(type="mail")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@contextmanager
def somebody(url: str) -> Iterator[psycopg.Connection]:
    """Open a connection whose transaction goes on until it is told to commit."""
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def record_of(clock: FakeClock, job: NewJob) -> JobRecord:
    """Return a job as another store would have it."""
    other = MemoryStore(clock=clock)
    other.run(other.queue.enqueue([job]))
    [record] = other.run(other.transfer.dump(0, 10)).records
    return record


def pass_through(store: PostgresStore, clock: FakeClock) -> None:
    """Let a job run, and the marks follow the clock."""
    store.run(store.queue.enqueue([JOB]))
    [job] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    decision = decide(job, Succeeded(NULL), clock.rng)
    store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    clock.advance(1.0)
    store.run(store.upkeep.tidy())


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (JOB, State.RUNNING),
        (NewJob(type="mail", delay=1.0), State.RUNNING),
        (NewJob(type="mail", policy=Policy(lifetime=2.0)), State.DEAD_LETTER),
    ],
    ids=["in line", "delayed", "outlived"],
)
def test_what_is_loaded_while_the_marks_move_is_found(
    store: PostgresStore, clock: FakeClock, postgres_url: str, job: NewJob, state: State
) -> None:
    """S0-3: its transaction began before the marks were to move, and ends after."""
    record = record_of(clock, job)
    for _ in range(4):
        pass_through(store, clock)
    store.run(store.transfer.load([record_of(clock, JOB)]))  # lanes and policies are known
    store.run(store.queue.claim(ClaimRequest(worker="w", limit=10)))
    with somebody(postgres_url) as connection:
        run_in(connection, store.transfer.load([record]))
        for _ in range(3):
            store.run(store.queue.enqueue([NewJob(type="mail", delay=1_000.0)]))
            clock.advance(1.0)
            store.run(store.upkeep.tidy())
        connection.commit()
    for _ in range(3):
        store.run(store.queue.enqueue([NewJob(type="mail", delay=1_000.0)]))
        clock.advance(1.0)
        store.run(store.upkeep.tidy())
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=10)))
    assert record.job.id in [each.id for each in claim.jobs] + [m.job_id for m in claim.expired]
    [found] = store.run(store.reader.get([record.job.id]))
    assert found is not None
    assert found.state is state


def test_two_who_load_the_same_job_store_it_once(
    store: PostgresStore, clock: FakeClock, postgres_url: str
) -> None:
    """S1-3: the second finds it there."""
    record = record_of(clock, NewJob(type="mail", key=Key("k"), tags={"a": "b"}))
    other = PostgresStore(postgres_url, clock=clock)
    for each in (store, other, store):
        each.run(each.transfer.load([record, record]))
    other.close()
    assert store.run(store.transfer.dump(0, 10)).records == [record]
    [queue] = store.run(store.overview.queues())
    assert queue.counts == {State.SCHEDULED: 1}
