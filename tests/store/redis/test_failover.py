"""A replica takes over that lacks the last moments: what then holds, and what does not.

Redis-specific: its replicas lag behind. The lag is forced by a replica that is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from tests.servers.redis import USUAL, RedisServer, eventually, or_skip

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.store.interface.queue import Beat, ClaimRequest, LeaseLost, Settled
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation, Plan, Statement, declaration_of
from fencepost.store.redis.jobs.catalog import pack
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock

QUICK = {**USUAL, "repl-diskless-sync-delay": "0"}


@pytest.fixture(scope="module")
def servers() -> Iterator[list[RedisServer]]:
    master, replica = or_skip(RedisServer, QUICK), or_skip(RedisServer, QUICK)
    with master, replica:
        yield [master, replica]


class Couple:
    """A master and its replica, of which the one may take the other's place."""

    def __init__(self, master: RedisServer, replica: RedisServer) -> None:
        self.master = master
        self.replica = replica

    def lag(self) -> None:
        """From now on the replica hears nothing."""
        with self.master.client() as client:
            client.set("here", "now")
            assert client.wait(1, 10_000) == 1
            self.replica.freeze()
            # Else it would find what was sent meanwhile in its socket.
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")

    def fail_over(self) -> None:
        """End the master, and promote the replica, which did not hear the last moments."""
        self.master.crash()
        self.replica.thaw()
        self.replica.do("REPLICAOF", "NO", "ONE")


@pytest.fixture
def couple(servers: list[RedisServer]) -> Iterator[Couple]:
    """Both empty, the second following the first."""
    master, replica = servers
    master.do("FLUSHALL")
    replica.follow(master)
    eventually(lambda: replica.do("DBSIZE") == 0)
    made = Couple(master, replica)
    yield made
    if not made.master.is_running:
        made.master.start()


def claim(store: Store) -> ClaimedJob:
    found = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
    return found.jobs[0]


def success(store: Store, job: ClaimedJob) -> Settlement:
    decision = decide(job, Succeeded(Body(b"null")), store.clock.rng)
    return Settlement(job.id, job.lease.token, decision)


def test_a_version_never_goes_back_and_the_old_lease_is_refused(couple: Couple) -> None:
    """The promoted replica does not know of the last claim; its clock is not behind."""
    before, after = RedisStore(couple.master.url), RedisStore(couple.replica.url)
    before.run(before.queue.enqueue([NewJob(type="t")]))
    couple.lag()
    lost = claim(before)
    couple.fail_over()
    found = after.run(after.reader.get([lost.id]))[0]
    assert found is not None
    assert found.state is State.SCHEDULED  # the claim is gone
    again = claim(after)
    assert again.id == lost.id
    assert again.lease.version > lost.lease.version
    assert again.lease.token != lost.lease.token
    assert isinstance(after.run(after.queue.settle([success(after, lost)]))[0], LeaseLost)
    beat = Beat(lost.id, lost.lease.token)
    assert isinstance(after.run(after.queue.heartbeat([beat]))[0], LeaseLost)
    assert isinstance(after.run(after.queue.settle([success(after, again)]))[0], Settled)
    before.close()
    after.close()


@pytest.mark.parametrize(("seconds", "is_higher"), [(4, True), (2, False)])
def test_a_version_goes_back_only_if_the_clock_is_behind_by_more_than_the_time_between(
    couple: Couple, seconds: int, is_higher: bool
) -> None:
    """The bound that the guarantees state: here the new master's clock is 3 s behind.

    Whether the version is higher or not, the old lease is refused: its token is another.
    """
    clock, behind = FakeClock(), FakeClock()
    before = RedisStore(couple.master.url, clock=clock)
    after = RedisStore(couple.replica.url, clock=behind)
    before.run(before.queue.enqueue([NewJob(type="t")]))
    clock.advance(3)
    couple.lag()
    lost = claim(before)
    couple.fail_over()
    behind.advance(seconds)
    again = claim(after)
    assert (again.lease.version > lost.lease.version) is is_higher
    assert isinstance(after.run(after.queue.settle([success(after, lost)]))[0], LeaseLost)
    before.close()
    after.close()


def test_a_lost_settlement_lets_the_job_run_again(couple: Couple) -> None:
    """Without waiting for replicas, an acknowledged success may be taken back."""
    before, after = RedisStore(couple.master.url), RedisStore(couple.replica.url)
    before.run(before.queue.enqueue([NewJob(type="t")]))
    held = claim(before)
    couple.lag()
    assert isinstance(before.run(before.queue.settle([success(before, held)]))[0], Settled)
    couple.fail_over()
    # The lease is still there, and so is the right to settle: to repeat it is accepted.
    assert isinstance(after.run(after.queue.settle([success(after, held)]))[0], Settled)
    before.close()
    after.close()


def test_an_operation_begins_anew_if_the_server_is_another_one_in_the_middle(
    couple: Couple,
) -> None:
    """What it has read may be newer than what is there now, under the same revision."""
    store = RedisStore(couple.master.url)
    starts: list[int] = []

    def plan() -> Plan[int]:
        starts.append(1)
        yield Statement("read", [b"", pack([])])
        if len(starts) == 1:
            couple.master.crash()
            couple.master.start()
        yield Statement("read", [b"", pack([])])
        return len(starts)

    operation = Operation(declaration_of(store.overview.queues), plan)
    assert store.run(operation) == 2
    store.close()


def test_a_number_that_is_given_twice_overwrites_nothing(redis_url: str, redis_prefix: str) -> None:
    """A server that lost its last moments gives a number again that another caller holds."""
    store = RedisStore(redis_url, prefix=redis_prefix)
    jobs = [NewJob(type="t") for _ in range(3)]
    stored = [reply.job_id for reply in store.run(store.queue.enqueue(jobs))]
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}seq", 0)
    stored += [reply.job_id for reply in store.run(store.queue.enqueue(jobs))]
    found = store.run(store.reader.get(stored))
    assert [job and job.id for job in found] == stored
    store.close()


def test_a_number_that_was_closed_is_not_given_again(redis_url: str, redis_prefix: str) -> None:
    """Readers begin after the numbers that are closed: nobody would see the job."""
    clock = FakeClock()
    store = RedisStore(redis_url, prefix=redis_prefix, clock=clock)
    stored = store.run(store.queue.enqueue([NewJob(type="t") for _ in range(3)]))
    store.run(store.control.cancel([reply.job_id for reply in stored]))
    clock.advance(3600)
    request = PruneRequest(limit=10, keep=dict.fromkeys(State, 1.0))
    assert store.run(store.upkeep.prune(request)).count == 3
    store.run(store.upkeep.prune(request))
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}seq", 0)
    (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    found = store.run(store.reader.find(JobFilter(), PageRequest(limit=10))).jobs
    assert [job.id for job in found] == [reply.job_id]
    store.close()
