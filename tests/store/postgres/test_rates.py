"""Rates by the server's clock, between transactions, and what becomes of old uses.

The conformance suite stops the clock, and its claims are never held up in the middle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.core.values.times import to_us
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.postgres.joins.transaction import run_in
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("migrated")

CROWD = 8
WAITERS = """
select count(*) from pg_stat_activity
where wait_event_type = 'Lock' and datname = current_database()
"""
USES = "select count(*) from fencepost.rate_uses"
PATIENCE = 30.0


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def claim(store: PostgresStore, limit: int = 10, **fields: object) -> list[ClaimedJob]:
    request = ClaimRequest(worker="w", limit=limit, lease_ttl=300.0, **fields)  # type: ignore[arg-type]
    return store.run(store.queue.claim(request)).jobs


def number(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def until_somebody_waits(admin: psycopg.Connection) -> None:
    deadline = time.monotonic() + PATIENCE
    while not number(admin, WAITERS):
        assert time.monotonic() < deadline, "nobody waits"


def test_no_window_of_the_servers_time_has_more_starts_than_the_rate(postgres_url: str) -> None:
    """However claimers overtake each other between reading the clock and getting the lock."""
    rate, total = Rate(12, 0.2), 90
    stores = [PostgresStore(postgres_url) for _ in range(CROWD)]
    stores[0].migrate()
    stores[0].run(stores[0].queue.enqueue([NewJob(type="mail")] * total))
    stores[0].run(stores[0].settings.limit_types({"mail": TypeLimits(rate=rate)}))
    ids: list[str] = []

    def work(store: PostgresStore) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(ids) < total and time.monotonic() < deadline:
            ids.extend(job.id for job in claim(store, 5))

    with ThreadPoolExecutor(CROWD) as threads:
        list(threads.map(work, stores))
    assert len(ids) == len(set(ids)) == total
    jobs = stores[0].run(stores[0].reader.get(ids))
    starts = sorted(to_us(job.started_at) for job in jobs if job and job.started_at)
    for first, later in zip(starts, starts[rate.count :], strict=False):
        assert later - first >= rate.window_us
    for store in stores:
        store.close()


def test_a_claim_waits_for_one_of_the_same_type_that_is_not_committed(
    postgres_url: str, store: PostgresStore, admin: psycopg.Connection
) -> None:
    """And sees what it has used; claims of other types do not wait."""
    store.run(store.queue.enqueue([NewJob(type="mail")] * 9 + [NewJob(type="text")] * 2))
    store.run(
        store.settings.limit_types(
            {"mail": TypeLimits(rate=Rate(5, 3600.0)), "text": TypeLimits(rate=Rate(5, 3600.0))}
        )
    )
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as threads:
        mails = ClaimRequest(worker="w1", limit=3, types=frozenset({"mail"}))
        held = run_in(other, store.queue.claim(mails)).jobs
        assert len(claim(store, types=frozenset({"text"}))) == 2
        waiting = threads.submit(claim, store)
        until_somebody_waits(admin)
        assert not waiting.done()
        other.commit()
        rest = waiting.result(PATIENCE)
    assert (len(held), len(rest)) == (3, 2)


def test_what_a_claim_used_that_was_rolled_back_is_free(
    postgres_url: str, store: PostgresStore
) -> None:
    """A process that dies before its commit has started nothing."""
    store.run(store.queue.enqueue([NewJob(type="mail")] * 9))
    store.run(store.settings.limit_types({"mail": TypeLimits(rate=Rate(5, 3600.0))}))
    with psycopg.connect(postgres_url) as other:
        assert len(run_in(other, store.queue.claim(ClaimRequest(worker="w1", limit=4))).jobs) == 4
        other.rollback()
    assert len(claim(store)) == 5


def test_whoever_changes_a_rate_waits_for_claims_and_they_obey_the_new_one(
    postgres_url: str, store: PostgresStore, admin: psycopg.Connection
) -> None:
    store.run(store.queue.enqueue([NewJob(type="mail")] * 9))
    store.run(store.settings.limit_types({"mail": TypeLimits(rate=Rate(2, 3600.0))}))
    with psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as threads:
        run_in(other, store.settings.limit_types({"mail": TypeLimits(rate=Rate(4, 3600.0))}))
        waiting = threads.submit(claim, store)
        until_somebody_waits(admin)
        other.commit()
        assert len(waiting.result(PATIENCE)) == 4


def test_old_uses_are_deleted_some_time_after_they_counted(
    postgres_url: str, admin: psycopg.Connection
) -> None:
    """By the leader: claims that had to delete them would step over what a snapshot keeps."""
    clock = FakeClock()
    store = PostgresStore(postgres_url, clock=clock)
    store.migrate()
    store.run(store.queue.enqueue([NewJob(type="mail")] * 9))
    store.run(store.settings.limit_types({"mail": TypeLimits(rate=Rate(2, 10.0))}))
    assert len(claim(store, 1)) == 1
    clock.advance(10)
    assert len(claim(store, 1)) == 1
    store.run(store.upkeep.tidy())
    assert number(admin, USES) == 2
    clock.advance(70)
    assert len(claim(store, 1)) == 1
    store.run(store.upkeep.tidy())
    assert number(admin, USES) == 2
    clock.advance(10)
    assert len(claim(store, 1)) == 1
    store.run(store.upkeep.tidy())
    assert number(admin, USES) == 2
    assert len(claim(store)) == 1
    store.run(store.settings.limit_types({"mail": TypeLimits()}))
    assert number(admin, USES) == 0
    store.close()
