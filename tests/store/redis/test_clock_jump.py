"""The server's clock is set forward or back while jobs run.

Not in the conformance suite, whose clock is that of the test. It takes libfaketime.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.servers.places import NoServerError
from tests.servers.redis_clock import JumpingServer
from tests.store.redis.test_failover import QUICK, Couple
from tests.worker.support import working_in_thread

from fencepost import App
from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome, Released, Settlement, Succeeded, decide
from fencepost.store.interface.queue import (
    Beat,
    ClaimRequest,
    Extended,
    LeaseLost,
    Settled,
    SettleReply,
)
from fencepost.store.redis.store import RedisStore

HOUR = 3600.0
TTL = 60.0
DONE = Succeeded(Body(b"1"))


@pytest.fixture(scope="module")
def server() -> Iterator[JumpingServer]:
    try:
        made = JumpingServer()
    except NoServerError as error:
        pytest.skip(str(error))
    with made:
        yield made


class Jobs:
    """A store, and what a worker does with it."""

    def __init__(self, url: str, prefix: str) -> None:
        self.store = RedisStore(url, prefix=prefix)

    def submit(self) -> str:
        (reply,) = self.store.run(self.store.queue.enqueue([NewJob(type="t")]))
        return reply.job_id

    def claim(self) -> list[ClaimedJob]:
        request = ClaimRequest(worker="w", limit=10, lease_ttl=TTL)
        return self.store.run(self.store.queue.claim(request)).jobs

    def settle(self, claimed: ClaimedJob, outcome: Outcome = DONE) -> SettleReply:
        decision = decide(claimed, outcome, Random(0))
        settlement = Settlement(claimed.id, claimed.lease.token, decision)
        return self.store.run(self.store.queue.settle([settlement]))[0]

    def beat(self, claimed: ClaimedJob) -> object:
        beat = Beat(claimed.id, claimed.lease.token, TTL)
        return self.store.run(self.store.queue.heartbeat([beat]))[0]

    def recover(self) -> list[str]:
        return [moved.job_id for moved in self.store.run(self.store.upkeep.recover(10))]


@pytest.fixture
def jobs(server: JumpingServer, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    made = Jobs(server.url, f"{{{request.node.name}}}:")
    yield made
    made.store.close()


def test_a_clock_that_is_set_forward_ends_leases_and_nothing_stale_is_accepted(
    server: JumpingServer, jobs: Jobs
) -> None:
    """INV-3: a job may run twice then, as after any lease that has ended."""
    job_id = jobs.submit()
    (first,) = jobs.claim()
    server.jump(HOUR)
    assert isinstance(jobs.beat(first), LeaseLost)
    assert isinstance(jobs.settle(first), LeaseLost)
    assert jobs.recover() == [job_id]
    server.jump(TTL)  # past the delay before the next attempt
    (second,) = jobs.claim()
    assert second.lease.version > first.lease.version
    assert isinstance(jobs.settle(first), LeaseLost)
    assert isinstance(jobs.settle(second), Settled)


def test_a_clock_that_is_set_back_ends_no_lease_and_no_version_goes_back(
    server: JumpingServer, jobs: Jobs
) -> None:
    """INV-3: a lease lasts until the clock has passed its end, so recovery comes late."""
    lost = jobs.submit()
    (dead,) = jobs.claim()
    server.jump(-HOUR)
    assert jobs.recover() == []
    beaten = jobs.beat(dead)
    assert isinstance(beaten, Extended)
    assert beaten.expires_at >= dead.lease.expires_at
    server.jump(HOUR + 2 * TTL)
    assert jobs.recover() == [lost]
    server.jump(-2 * HOUR)
    assert jobs.claim() == []  # it is due when the clock has come back to where it was
    server.jump(2 * HOUR + TTL)
    (again,) = jobs.claim()
    server.jump(-2 * HOUR)
    assert isinstance(jobs.settle(dead), LeaseLost)
    jobs.settle(again, Released())
    (last,) = jobs.claim()
    assert dead.lease.version < again.lease.version < last.lease.version
    assert isinstance(jobs.beat(again), LeaseLost)
    assert isinstance(jobs.settle(last), Settled)
    (job,) = jobs.store.run(jobs.store.reader.get([lost]))
    assert job is not None
    assert job.state is State.COMPLETED


def test_workers_go_on_while_the_clock_jumps(server: JumpingServer) -> None:
    """What was submitted before a jump and after it is done."""
    app = App(f"{server.url}?prefix={{jumping}}:")
    ran: list[int] = []

    @app.task
    def note(number: int) -> int:
        ran.append(number)
        return number

    with working_in_thread(app):
        for place, jump in enumerate((HOUR, -2 * HOUR, HOUR, 5.0, -5.0)):
            handles = [note.submit(number=10 * place + each) for each in range(5)]
            server.jump(jump)
            handles += [note.submit(number=10 * place + each) for each in range(5, 10)]
            for handle in handles:
                handle.result(timeout=30)
    app.close()
    assert {*ran} == {*range(50)}


def test_a_new_master_whose_clock_is_behind_lowers_a_version_and_accepts_nothing_stale(
    server: JumpingServer,
) -> None:
    """Where the promise of rising versions ends: the claim is lost, and its time has not come."""
    del server  # there is a library
    with JumpingServer(QUICK) as master, JumpingServer(QUICK) as replica:
        replica.follow(master)
        couple = Couple(master, replica)
        old = Jobs(master.url, "{behind}:")
        job_id = old.submit()
        couple.lag()
        master.jump(HOUR)
        (first,) = old.claim()
        old.store.close()
        couple.fail_over()
        new = Jobs(replica.url, "{behind}:")
        assert isinstance(new.settle(first), LeaseLost)
        (second,) = new.claim()
        assert second.id == job_id
        assert second.lease.version < first.lease.version
        assert isinstance(new.beat(first), LeaseLost)
        assert isinstance(new.settle(first), LeaseLost)
        assert isinstance(new.settle(second), Settled)
        new.store.close()
