"""An old snapshot keeps every row version of a day: what claims and tidying read must not grow.

PostgreSQL-specific: only there a reader keeps others from removing what is dead. Counted in pages
and rows, not in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from tests.store.postgres.patience import patiently

from fencepost.core.job.job import NewJob
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Operation
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("quiet")

LANES = 50
ROUNDS = 40
LEEWAY = 1.3
"""Pages of indexes split, and a chain may cross into a new page."""
SPLITS = 10
"""The same where only a few pages are read at all. The jobs that have gone fill over a hundred."""
WARM = 8
"""From the sixth time on, the server may take a plan for any parameters."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def probe(postgres_url: str, store: PostgresStore) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url) as connection:
        yield connection


@pytest.fixture
def snapshot(postgres_url: str, store: PostgresStore) -> Iterator[psycopg.Connection]:
    """A transaction that reads, and does not end."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute("select count(*) from fencepost.submissions")
        yield connection
        connection.rollback()


def claiming(store: PostgresStore) -> Operation[Any]:
    return store.queue.claim(ClaimRequest(worker="w", limit=1000, lease_ttl=0.4))


EACH = [NewJob(type=f"type-{number}") for number in range(LANES)]


def work(
    probe: psycopg.Connection,
    store: PostgresStore,
    clock: FakeClock,
    rounds: int,
    jobs: Sequence[NewJob] = EACH,
) -> None:
    """Let *jobs* come, run and go, and tidy, as often as a leader would."""
    for _ in range(rounds):
        store.run(store.queue.enqueue(jobs))
        found = store.run(claiming(store)).jobs
        assert len(found) == len(jobs)
        ended = [
            Settlement(job.id, job.lease.token, decide(job, Succeeded(NULL), clock.rng))
            for job in found
        ]
        store.run(store.queue.settle(ended))
        clock.advance(0.5)
        store.run(store.upkeep.tidy())
    catch_up(probe, store, clock)


def catch_up(probe: psycopg.Connection, store: PostgresStore, clock: FakeClock) -> None:
    """Tidy until the marks have passed all of this; transactions of other tests hold that up."""
    end = clock.now()
    for _ in patiently(probe.info.dsn):
        clock.advance(0.5)
        store.run(store.queue.enqueue([NewJob(type="type-0", delay=1000.0)]))  # to add up
        store.run(store.upkeep.tidy())
        passed = probe.execute("select due_mark >= %s from fencepost.newest_marks()", (end,))
        has_passed = passed.fetchone() == (True,)
        probe.rollback()
        if has_passed:
            return


def pages(probe: psycopg.Connection, sql: str, params: Any) -> int:
    """Return how many pages a statement reads."""
    explained = f"explain (analyze, buffers, format json) {sql}".encode()
    [[[found]]] = probe.execute(explained, params).fetchall()
    plan = found["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def claim_pages(probe: psycopg.Connection, store: PostgresStore) -> int:
    """Return how many pages a claim reads whose plans are ready; it is undone."""
    statement = next(claiming(store).start())
    for _ in range(WARM):
        found = pages(probe, statement.sql, statement.params)
        probe.rollback()
    return found


def tidy_pages(probe: psycopg.Connection, store: PostgresStore, clock: FakeClock) -> int:
    """Return how many pages tidying reads that moves the marks; it is undone.

    While a transaction of another test is open, the marks stay, and far less is read.
    """
    store.run(store.queue.enqueue([NewJob(type="type-0", delay=1000.0)]))  # something to add up
    found: list[int] = []
    for _ in patiently(probe.info.dsn):
        before = newest_marks(probe)
        read = pages(probe, "select fencepost.tidy(%s, false)", (clock.now(),))
        if newest_marks(probe) > before:
            found.append(read)
        probe.rollback()
        if len(found) == WARM:
            break
    return found[-1]


def newest_marks(probe: psycopg.Connection) -> int:
    """Return the number of the newest marks."""
    row = probe.execute("select number from fencepost.newest_marks()").fetchone()
    assert row is not None
    return int(row[0])


def test_claims_and_tidying_read_as_much_as_before_beside_an_old_snapshot(
    store: PostgresStore, probe: psycopg.Connection, snapshot: psycopg.Connection, clock: FakeClock
) -> None:
    """S2-26: fifty lanes in use, each of whose marks moves twice a second."""
    work(probe, store, clock, 10)
    before = claim_pages(probe, store), tidy_pages(probe, store, clock)
    work(probe, store, clock, ROUNDS)
    after = claim_pages(probe, store), tidy_pages(probe, store, clock)
    for _ in range(50):  # transactions of other tests on this server hold the marks back
        if after[0] <= before[0] * LEEWAY:
            break
        work(probe, store, clock, 1)
        after = claim_pages(probe, store), tidy_pages(probe, store, clock)
    assert after[0] <= before[0] * LEEWAY
    assert after[1] <= before[1] * LEEWAY


def test_tidying_does_not_read_the_jobs_that_have_gone(
    store: PostgresStore, probe: psycopg.Connection, snapshot: psycopg.Connection, clock: FakeClock
) -> None:
    """S2-26: one busy lane, of which the server keeps every job in line that it ever had."""
    jobs = [NewJob(type="type-0")] * 1_000
    work(probe, store, clock, 4, jobs)
    before = tidy_pages(probe, store, clock)
    work(probe, store, clock, 12, jobs)
    assert tidy_pages(probe, store, clock) <= before * LEEWAY + SPLITS


def test_a_claim_that_has_jobs_does_not_step_over_the_leases_that_have_ended(
    store: PostgresStore, probe: psycopg.Connection, snapshot: psycopg.Connection, clock: FakeClock
) -> None:
    """S2-26: each of them would have lasted for a while yet, and its entry stands in the index."""
    request = ClaimRequest(worker="w", limit=1, lease_ttl=30.0)
    for _ in range(100):
        store.run(store.queue.enqueue([NewJob(type="type-0")]))
        [job] = store.run(store.queue.claim(request)).jobs
        decision = decide(job, Succeeded(NULL), clock.rng)
        store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    store.run(store.queue.enqueue([NewJob(type="type-0")]))
    statement = next(store.queue.claim(request).start())
    probe.execute(statement.sql.encode(), statement.params)
    read = "select pg_stat_get_xact_tuples_returned('fencepost.leases_expiry'::regclass)"
    assert probe.execute(read.encode()).fetchone() == (0,)
    probe.rollback()
