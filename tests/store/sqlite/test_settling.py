"""The fenced update that records a batch of successes. SQLite-specific: its fast path."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.store.interface.queue import AlreadySettled, ClaimRequest, LeaseLost, Settled
from fencepost.store.plan import Statement
from fencepost.store.sqlite.jobs.lease import make_token, read_token
from fencepost.store.sqlite.jobs.settle import LOCATE
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def store(path: str, clock: FakeClock) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, clock=clock)
    yield opened
    opened.close()


def success(job: ClaimedJob, token: str | None = None) -> Settlement:
    decision = decide(job, Succeeded(Body(b'"done"')), random.Random(0))
    return Settlement(job.id, token or job.lease.token, decision)


def claim(store: SqliteStore, limit: int = 10) -> list[ClaimedJob]:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit, lease_ttl=5.0))).jobs


def counts(store: SqliteStore) -> dict[State, int]:
    return {
        state: count
        for state in State
        if (count := store.run(store.reader.count(JobFilter(states=(state,)))))
    }


def test_a_healthy_batch_is_settled_without_being_read(store: SqliteStore) -> None:
    store.run(
        store.queue.enqueue([NewJob(type="a"), NewJob(type="b"), NewJob(type="a", queue="q")])
    )
    jobs = claim(store)
    plan = store.queue.settle([success(job) for job in jobs]).start()
    connection = store._database._writer
    statements: list[str] = []
    try:
        statement: Statement = next(plan)
        while True:
            statements.append(statement.sql)
            statement = plan.send(connection.execute(statement.sql, statement.params).fetchall())
    except StopIteration as stop:
        replies: Sequence[object] = stop.value
    assert LOCATE not in statements
    assert replies == [Settled(job.id, job.type, State.COMPLETED) for job in jobs]
    assert counts(store) == {State.COMPLETED: 3}


def test_one_stale_lease_in_a_batch_takes_back_nothing_of_the_others(
    store: SqliteStore, clock: FakeClock
) -> None:
    """S0-49, S2-35: the stale one is refused, the rest are settled once."""
    store.run(store.queue.enqueue([NewJob(type="t")]))
    (stale,) = claim(store)
    clock.advance(5)
    store.run(store.queue.enqueue([NewJob(type="t")] * 2))
    fresh = claim(store)
    replies = store.run(store.queue.settle([success(fresh[0]), success(stale), success(fresh[1])]))
    assert [type(reply) for reply in replies] == [Settled, LeaseLost, Settled]
    assert counts(store) == {State.COMPLETED: 2, State.RETRYING: 1}
    again = store.run(store.queue.settle([success(fresh[0]), success(fresh[1])]))
    assert [type(reply) for reply in again] == [AlreadySettled, AlreadySettled]
    assert counts(store) == {State.COMPLETED: 2, State.RETRYING: 1}


def test_a_lease_ends_at_its_expiry_for_a_batch_too(store: SqliteStore, clock: FakeClock) -> None:
    """C10: at the very microsecond of its expiry the lease is over."""
    store.run(store.queue.enqueue([NewJob(type="t")]))
    (job,) = claim(store)
    clock.advance(5)
    (reply,) = store.run(store.queue.settle([success(job)]))
    assert isinstance(reply, LeaseLost)
    assert counts(store) == {State.RUNNING: 1}


def test_a_token_is_good_for_its_own_row_lane_and_job_only(store: SqliteStore) -> None:
    """S0-48: whoever knows the secret of a claim still cannot settle another job with it."""
    store.run(store.queue.enqueue([NewJob(type="a"), NewJob(type="b")]))
    first, second = claim(store)
    seq, lane, secret = read_token(first.lease.token)
    forged = [
        success(first, make_token(seq, lane + 1, secret)),
        success(first, make_token(seq + 1, lane, secret)),
        success(first, make_token(seq, lane, secret[:-1])),
        success(first, second.lease.token),
    ]
    for settlement in forged[1:]:
        (reply,) = store.run(store.queue.settle([settlement]))
        assert isinstance(reply, LeaseLost)
    assert counts(store) == {State.RUNNING: 2}
    # The lane is a hint for counting: a wrong one is found out and the row's own is used.
    (reply,) = store.run(store.queue.settle([forged[0]]))
    assert reply == Settled(first.id, "a", State.COMPLETED)
    by_type = {view.name: view.counts for view in store.run(store.overview.types())}
    assert by_type == {"a": {State.COMPLETED: 1}, "b": {State.RUNNING: 1}}


@pytest.mark.parametrize("token", ["", ".", "..", "1.1", "1.1.", "x.y.z", "-1.1.a", "1.1.a.b"])
def test_a_malformed_token_owns_nothing(store: SqliteStore, token: str) -> None:
    """S0-77."""
    store.run(store.queue.enqueue([NewJob(type="t")]))
    (job,) = claim(store)
    settlement = Settlement(job.id, token, success(job).decision)
    assert store.run(store.queue.settle([settlement])) == [LeaseLost(job.id, State.RUNNING)]


def test_a_corrupt_row_can_still_be_looked_at(store: SqliteStore) -> None:
    """A job that cannot be read must not hide the others from a search."""
    (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    store._database._writer.execute("update jobs set payload_encoding = 9, priority = 77")
    (job,) = store.run(store.reader.get([reply.job_id]))
    assert job is not None
    assert job.id == reply.job_id
