"""Claims beside each other: none waits for another's rows, and none gets them."""

from __future__ import annotations

import psycopg
import pytest
from tests.store.postgres.blocking import answer, apart, open_transaction, see_waiting, settlement

from fencepost.core.job.job import Category, Failure, NewJob
from fencepost.core.job.outcome import Failed, Released, Settlement, decide
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.postgres.joins.transaction import run_in
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")


def test_claimers_do_not_block_each_other(postgres_url: str) -> None:
    """S2-21: what an uncommitted claim has locked is passed over at once, and not given twice."""
    store = PostgresStore(postgres_url)
    store.migrate()
    ids = {reply.job_id for reply in store.run(store.queue.enqueue([NewJob(type="mail")] * 6))}
    with psycopg.connect(postgres_url) as other:
        held = run_in(other, store.queue.claim(ClaimRequest(worker="w1", limit=4)))
        # Were it to wait for the other, it would fail by its lock timeout.
        rest = store.run(store.queue.claim(ClaimRequest(worker="w2", limit=4)))
        assert (len(held.jobs), len(rest.jobs)) == (4, 2)
        assert {job.id for job in [*held.jobs, *rest.jobs]} == ids
        other.rollback()
    again = store.run(store.queue.claim(ClaimRequest(worker="w2", limit=6)))
    assert {job.id for job in again.jobs} == {job.id for job in held.jobs}
    store.close()


def test_a_failure_may_hold_any_text(postgres_url: str) -> None:
    """S1-80: also what PostgreSQL's own text cannot hold."""
    store = PostgresStore(postgres_url)
    store.migrate()
    store.run(store.queue.enqueue([NewJob(type="mail")]))
    [job] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    failure = Failure(Category.PERMANENT, 'a\0b \\ " 🦊', traceback="\0")
    decision = decide(job, Failed(failure), store.clock.rng)
    store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))
    [seen] = store.run(store.reader.get([job.id]))
    assert seen is not None
    assert seen.failure == failure
    store.close()


def test_a_lease_begins_when_its_job_was_taken(postgres_url: str) -> None:
    """S0-21: not when the claim read the clock, which may be before the last lease ended."""
    store = PostgresStore(postgres_url)
    store.migrate()
    store.run(store.queue.enqueue([NewJob(type="mail")]))
    request = ClaimRequest(worker="w", limit=1)
    [held] = store.run(store.queue.claim(request)).jobs
    store.run(store.queue.settle([settlement(held, Released())]))
    with open_transaction(postgres_url) as other:
        other.execute("lock table fencepost.ready in access exclusive mode")
        claiming = apart(lambda: store.run(store.queue.claim(request)))
        see_waiting(postgres_url)
        row = other.execute("select clock_timestamp()").fetchone()
    [job] = answer(claiming).jobs
    [seen] = store.run(store.reader.get([job.id]))
    assert row is not None
    assert seen is not None
    assert seen.started_at is not None
    assert seen.started_at >= row[0]
    store.close()
