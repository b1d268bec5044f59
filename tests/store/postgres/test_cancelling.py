"""The server cancels by itself what nothing follows: as core decides, and in few statements.

Store-specific: ``store/postgres/schema/functions/cancel.sql`` ends jobs without a look of Python's,
because twenty thousand of them took seven seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.store.postgres.blocking import answer, apart, open_transaction, see_waiting

from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Released, decide, settlement_of
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import ClaimRequest, Enqueued, Moved
from fencepost.store.plan import Operation, Plan, Row
from fencepost.store.postgres.jobs import control
from fencepost.store.postgres.jobs.finish import DETACH_AWAITED
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.sql.codec import NUMBER
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("migrated")

MANY = 300
WITHOUT_PLAIN = """
create or replace function fencepost.plain(p_seqs bigint[]) returns bigint[] language plpgsql as $$
begin return '{}'; end $$
"""
STORED = """
select j.id::text, completed_at, started_at, scheduled_at::text, lease_token,
  attempt, lease_version, state, result_encoding, is_dead_letter, worker, result, failure
from fencepost.done join fencepost.submissions j using (seq)
where j.id = any (%s::uuid[]) order by array_position(%s, j.id::text)
"""
COUNTS = """
select state, sum(count)::integer from fencepost.counts group by state having sum(count) <> 0
"""


SHARE = """
select 1 from fencepost.ready join fencepost.submissions using (seq)
where id = %s::uuid for share of ready
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(postgres_url: str, clock: FakeClock) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, clock=clock)
    yield store
    store.close()


def submit(store: PostgresStore, *jobs: NewJob) -> list[str]:
    replies = store.run(store.queue.enqueue(jobs))
    assert all(isinstance(reply, Enqueued) for reply in replies)
    return [reply.job_id for reply in replies]


def in_every_place(store: PostgresStore, type: str) -> list[str]:
    """Submit jobs that wait in line and for their time, for the first time and again."""
    given_back, reopened, postponed = submit(store, *[NewJob(type=type)] * 3)
    request = ClaimRequest(worker="w", limit=1, types=frozenset({type}))
    (claimed,) = store.run(store.queue.claim(request)).jobs
    release = decide(claimed, Released(), store.clock.rng)
    store.run(store.queue.settle([settlement_of(claimed, release)]))
    store.run(store.control.cancel([reopened, postponed]))
    store.run(store.control.retry([RetryRequest(reopened), RetryRequest(postponed, delay=60.0)]))
    new = submit(store, NewJob(type=type), NewJob(type=type, delay=60.0))
    return [given_back, reopened, postponed, *new]


def stored(connection: psycopg.Connection[Any], asked: list[str]) -> list[Row]:
    return [row[1:] for row in connection.execute(STORED, [asked, asked]).fetchall()]


def test_the_server_stores_what_core_decides(
    store: PostgresStore, clock: FakeClock, postgres_url: str
) -> None:
    by_server, by_core = in_every_place(store, "mail"), in_every_place(store, "report")
    clock.advance(5.0)
    store.run(store.control.cancel(by_server))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(WITHOUT_PLAIN)
        store.run(store.control.cancel(by_core))
        rows = stored(connection, by_server)
        assert len(rows) == len(by_server)
        assert rows == stored(connection, by_core)
        counts = connection.execute(COUNTS).fetchall()
        assert counts == [(NUMBER[State.CANCELLED], 2 * len(rows))]


def statements(store: PostgresStore, asked: list[str]) -> list[str]:
    """Cancel jobs, and return the statements that it took."""
    seen: list[str] = []
    operation = store.control.cancel(asked)

    def watched() -> Plan[Any]:
        plan = operation.start()
        try:
            statement = next(plan)
            while True:
                seen.append(statement.sql)
                statement = plan.send((yield statement))
        except StopIteration as stop:
            return stop.value

    store.run(Operation(operation.declaration, watched))
    return seen


def test_many_jobs_are_cancelled_by_one_statement(store: PostgresStore) -> None:
    one, *many = submit(store, *[NewJob(type="mail")] * MANY)
    statements(store, [one])  # it learns the lane
    assert statements(store, many) == [control.CANCEL]


def test_only_those_that_something_follows_are_looked_at_one_by_one(store: PostgresStore) -> None:
    asked = submit(store, *[NewJob(type="mail")] * MANY)
    (child,) = submit(store, NewJob(type="leaf", after=Dependencies((asked[7],))))
    first, second, *_ = statements(store, asked)
    assert (first, second) == (control.CANCEL, DETACH_AWAITED)
    found = store.run(store.reader.get([*asked, child]))
    assert {job and job.state for job in found} == {State.CANCELLED}


def test_a_job_that_comes_to_wait_meanwhile_is_cancelled_as_well(
    store: PostgresStore, postgres_url: str
) -> None:
    """What follows a job is looked up once it is locked."""
    (parent,) = submit(store, NewJob(type="mail"))
    with open_transaction(postgres_url) as connection:
        assert connection.execute(SHARE, [parent]).fetchall()
        cancelling = apart(lambda: store.run(store.control.cancel([parent])))
        see_waiting(postgres_url)
        (child,) = submit(store, NewJob(type="leaf", after=Dependencies((parent,))))
    (reply,) = answer(cancelling)
    assert isinstance(reply, Moved)
    assert [move.job_id for move in reply.followed] == [child]
