"""Workers whose clocks are an hour off: the server's clock alone decides (C40).

Store-specific: the conformance suite passes one clock to every store, and PostgreSQL asks the
server for the time only when that clock is the machine's own. So here it is, and it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from fencepost.clock import SystemClock
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure, Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide
from fencepost.core.job.policy import Backoff, Policy
from fencepost.core.values.payload import NULL
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import (
    Beat,
    ClaimRequest,
    Extended,
    LeaseLost,
    Save,
    Saved,
    Settled,
)
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

HOUR = timedelta(hours=1)
HALF_AN_HOUR = 1800.0
"""Far in the server's future, and past to a clock that is an hour ahead."""
TTL = 600.0
INSTANT = 0.001


class WrongClock(SystemClock):
    """Of a machine whose time was set by hand."""

    def __init__(self, off: timedelta) -> None:
        super().__init__()
        self._off = off

    def now(self) -> datetime:
        return super().now() + self._off

    def now_us(self) -> int:
        return super().now_us() + round(self._off.total_seconds() * 1e6)


class Server:
    """The one clock that counts."""

    def __init__(self, url: str) -> None:
        self._admin = psycopg.connect(url, autocommit=True)

    def now(self) -> datetime:
        row = self._admin.execute("select clock_timestamp()").fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]  # one timestamptz

    def pass_over(self, instant: datetime) -> None:
        """Wait until *instant* is over, by the server's own clock."""
        self._admin.execute("select pg_sleep_until(%s)", (instant,))

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def server(postgres_url: str) -> Iterator[Server]:
    server = Server(postgres_url)
    yield server
    server.close()


@pytest.fixture
def right(postgres_url: str) -> Iterator[PostgresStore]:
    """A store of a machine whose clock is right."""
    store = PostgresStore(postgres_url)
    store.migrate()
    yield store
    store.close()


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def wrong(
    request: pytest.FixtureRequest, right: PostgresStore, postgres_url: str
) -> Iterator[PostgresStore]:
    """A store of another machine."""
    store = PostgresStore(postgres_url, clock=WrongClock(request.param))
    yield store
    store.close()


def enqueue(store: PostgresStore, **fields: object) -> str:
    job = NewJob(**{"type": "mail", **fields})  # type: ignore[arg-type]  # as the test says
    [reply] = store.run(store.queue.enqueue([job]))
    return reply.job_id


def claim(store: PostgresStore, ttl: float = TTL) -> list[ClaimedJob]:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=10, lease_ttl=ttl))).jobs


def settlement(store: PostgresStore, job: ClaimedJob, outcome: Outcome) -> Settlement:
    return Settlement(job.id, job.lease.token, decide(job, outcome, store.clock.rng))


def found(store: PostgresStore, job_id: str) -> Job:
    [job] = store.run(store.reader.get([job_id]))
    assert job is not None
    return job


def lapsed(store: PostgresStore, server: Server) -> ClaimedJob:
    """Return a job whose lease has run out, by the server's clock."""
    enqueue(store)
    [job] = claim(store, INSTANT)
    server.pass_over(job.lease.expires_at)
    return job


def test_a_submission_is_dated_by_the_server(wrong: PostgresStore, server: Server) -> None:
    """C40: when it was made, when it is due, and when its life ends."""
    before = server.now()
    job_id = enqueue(wrong, delay=TTL, policy=Policy(lifetime=HALF_AN_HOUR))
    after = server.now()
    job = found(wrong, job_id)
    assert before <= job.created_at <= after
    assert job.run_at == job.created_at + timedelta(seconds=TTL)
    assert job.expires_at == job.created_at + timedelta(seconds=HALF_AN_HOUR)


def test_a_claim_is_dated_by_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40: a lease of a clock that is behind would be over before it began."""
    enqueue(right)
    before = server.now()
    [job] = claim(wrong)
    after = server.now()
    lease = timedelta(seconds=TTL)
    assert before + lease <= job.lease.expires_at <= after + lease
    stored = found(right, job.id)
    assert stored.started_at is not None
    assert before <= stored.started_at <= after
    assert stored.lease is not None
    assert stored.lease.expires_at == job.lease.expires_at
    assert 0 <= job.waited <= HALF_AN_HOUR


def test_a_claim_takes_what_is_due_to_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40: not what would be due in an hour, and not an hour late."""
    enqueue(right, delay=HALF_AN_HOUR)
    due = enqueue(right, delay=INSTANT)
    server.pass_over(found(right, due).run_at)
    assert [job.id for job in claim(wrong)] == [due]


def test_a_claim_recovers_and_expires_by_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40, S2-12: the chores that a claim does on its way."""
    enqueue(right, policy=Policy(lifetime=HALF_AN_HOUR, lease_ttl=TTL))
    [valid] = claim(right)
    over = lapsed(right, server)
    outlived = enqueue(right, policy=Policy(lifetime=INSTANT))
    server.pass_over(found(right, outlived).expires_at)
    claimed = wrong.run(wrong.queue.claim(ClaimRequest(worker="w", limit=10)))
    assert [moved.job_id for moved in claimed.recovered] == [over.id]
    assert [moved.job_id for moved in claimed.expired] == [outlived]
    assert found(right, valid.id).state is State.RUNNING


def test_a_heartbeat_extends_by_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40, C18: the lease ends so long after the server's now."""
    enqueue(right)
    [job] = claim(right, 10.0)
    before = server.now()
    [reply] = wrong.run(wrong.queue.heartbeat([Beat(job.id, job.lease.token, TTL)]))
    after = server.now()
    assert isinstance(reply, Extended)
    lease = timedelta(seconds=TTL)
    assert before + lease <= reply.expires_at <= after + lease
    stored = found(right, job.id).lease
    assert stored is not None
    assert stored.expires_at == reply.expires_at


@pytest.mark.parametrize(
    "outcome",
    [Succeeded(NULL), Failed(Failure(Category.TEMPORARY, "trouble"))],
    ids=["success", "failure"],
)
def test_what_is_written_under_a_valid_lease_is_dated_by_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server, outcome: Outcome
) -> None:
    """C40, C10: a clock that is ahead does not lose it its lease."""
    backoff = Backoff(initial_delay=TTL, jitter=0.0)
    enqueue(right, policy=Policy(backoff=backoff))
    [job] = claim(right)
    save = Save(job.id, job.lease.token, checkpoint=Body(b"1"))
    assert wrong.run(wrong.queue.save([save])) == [Saved(job.id)]
    before = server.now()
    [reply] = wrong.run(wrong.queue.settle([settlement(wrong, job, outcome)]))
    after = server.now()
    assert isinstance(reply, Settled)
    stored = found(right, job.id)
    if reply.state is State.COMPLETED:
        assert stored.completed_at is not None
        assert before <= stored.completed_at <= after
    else:
        delay = timedelta(seconds=TTL)
        assert before + delay <= stored.run_at <= after + delay
    attempts = right.run(right.reader.attempts(job.id))
    assert attempts is not None
    [attempt] = attempts
    assert attempt.ended_at is not None
    assert before <= attempt.ended_at <= after


def test_nothing_is_written_under_a_lease_that_is_over_to_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40, C10, S0-49: a clock that is behind does not make it last."""
    job = lapsed(right, server)
    lost = [LeaseLost(job.id, State.RUNNING)]
    assert wrong.run(wrong.queue.heartbeat([Beat(job.id, job.lease.token, TTL)])) == lost
    save = Save(job.id, job.lease.token, checkpoint=Body(b"1"))
    assert wrong.run(wrong.queue.save([save])) == lost
    for outcome in (Succeeded(NULL), Failed(Failure(Category.TEMPORARY, "trouble"))):
        assert wrong.run(wrong.queue.settle([settlement(wrong, job, outcome)])) == lost


def test_leases_are_taken_back_when_they_are_over_to_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40: no valid one by a clock that is ahead, and none an hour late."""
    enqueue(right)
    [valid] = claim(right)
    over = lapsed(right, server)
    before = server.now()
    assert [moved.job_id for moved in wrong.run(wrong.upkeep.recover(10))] == [over.id]
    assert found(right, valid.id).state is State.RUNNING
    assert found(right, over.id).run_at >= before


def test_jobs_are_promoted_when_they_are_due_to_the_server(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40."""
    early = enqueue(right, delay=HALF_AN_HOUR)
    due = enqueue(right, delay=INSTANT)
    server.pass_over(found(right, due).run_at)
    assert [moved.job_id for moved in wrong.run(wrong.upkeep.promote(10))] == [due]
    assert found(right, early).state is State.DELAYED


def test_jobs_expire_when_the_server_says(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40, S1-44."""
    early = enqueue(right, policy=Policy(lifetime=HALF_AN_HOUR))
    outlived = enqueue(right, policy=Policy(lifetime=INSTANT))
    server.pass_over(found(right, outlived).expires_at)
    assert [moved.job_id for moved in wrong.run(wrong.upkeep.expire(10))] == [outlived]
    assert found(right, early).state is State.SCHEDULED


def test_jobs_are_kept_for_as_long_as_the_server_says(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40."""
    enqueue(right)
    [job] = claim(right)
    right.run(right.queue.settle([settlement(right, job, Succeeded(NULL))]))
    kept = PruneRequest(keep={State.COMPLETED: HALF_AN_HOUR}, limit=10)
    assert wrong.run(wrong.upkeep.prune(kept)).count == 0
    ended_at = found(right, job.id).completed_at
    assert ended_at is not None
    server.pass_over(ended_at + timedelta(seconds=INSTANT))
    short = PruneRequest(keep={State.COMPLETED: INSTANT}, limit=10)
    assert wrong.run(wrong.upkeep.prune(short)).count == 1


def test_a_term_lasts_as_long_as_the_server_says(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40: a leader whose clock is ahead takes no term that another holds."""
    assert right.run(right.cluster.lead("chores", "one", TTL)) is not None
    assert wrong.run(wrong.cluster.lead("chores", "two", TTL)) is None
    right.run(right.cluster.resign("chores", "one"))
    before = server.now()
    assert wrong.run(wrong.cluster.lead("chores", "two", INSTANT)) is not None
    server.pass_over(before + timedelta(seconds=0.1))
    assert right.run(right.cluster.lead("chores", "one", TTL)) is not None


def test_a_retry_by_hand_is_due_when_the_server_says(
    wrong: PostgresStore, right: PostgresStore, server: Server
) -> None:
    """C40, C36."""
    enqueue(right)
    [job] = claim(right)
    failed = Failed(Failure(Category.PERMANENT, "trouble"))
    right.run(right.queue.settle([settlement(right, job, failed)]))
    before = server.now()
    wrong.run(wrong.control.retry([RetryRequest(job.id, delay=TTL)]))
    after = server.now()
    delay = timedelta(seconds=TTL)
    assert before + delay <= found(right, job.id).run_at <= after + delay
