"""With durability=replica, nothing rests on what a failover of another partition may take back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.servers.places import NoServerError
from tests.servers.redis import RedisServer
from tests.servers.redis_groups import QUICK

from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.errors import DuplicateJobError, UnknownOutcomeError
from fencepost.generators import drive
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.redis.partitions.outbox.delivery import deliver_all
from fencepost.store.redis.partitions.store import PartitionedStore

A, B = "a", "b"
"""Queues of two partitions."""


class World:
    """A master with a replica, and two processes."""

    def __init__(self, master: RedisServer, replica: RedisServer) -> None:
        self.master, self.replica = master, replica
        url = f"{master.url}?partition=queue&durability=replica"
        self.worker, self.other = (PartitionedStore(url, patience=0.4) for _ in range(2))

    def claim(self) -> ClaimedJob:
        request = ClaimRequest(worker="w", limit=1)
        (claimed,) = self.worker.run(self.worker.queue.claim(request)).jobs
        return claimed

    def succeed_unheard(self, claimed: ClaimedJob) -> None:
        """Settle a job; no replica hears of it."""
        self.replica.freeze()
        done = decide(claimed, Succeeded(Body(b"1")), Random(0))
        settlement = Settlement(claimed.id, claimed.lease.token, done)
        with pytest.raises(UnknownOutcomeError):
            self.worker.run(self.worker.queue.settle([settlement]))

    def hear(self) -> None:
        self.replica.thaw()
        assert self.master.do("WAIT", 1, 10_000) == 1

    def deliver(self) -> None:
        drive(deliver_all(self.other._hub), self.other._perform)

    def state(self, job_id: str) -> State:
        (job,) = self.other.run(self.other.reader.get([job_id]))
        assert job is not None
        return job.state


@pytest.fixture
def world() -> Iterator[World]:
    try:
        master, replica = RedisServer(QUICK), RedisServer(QUICK)
    except NoServerError as error:
        pytest.skip(str(error))
    with master, replica:
        replica.follow(master)
        made = World(master, replica)
        yield made
        made.worker.close()
        made.other.close()
        replica.thaw()


def test_an_end_that_no_replica_has_confirmed_lets_go_of_nobody(world: World) -> None:
    """If it is taken back, the job runs again, and who waits for it must not have begun."""
    new = [NewJob(type="a", queue=A), NewJob(type="b", queue=B, after=Dependencies((0,)))]
    _, last = world.worker.run(world.worker.queue.enqueue(new, atomic=True))
    world.succeed_unheard(world.claim())
    world.deliver()
    assert world.state(last.job_id) is State.PENDING
    world.hear()
    world.deliver()
    assert world.state(last.job_id) is State.SCHEDULED


def test_nobody_begins_behind_an_end_that_no_replica_has_confirmed(world: World) -> None:
    """A submission that comes after it finds it ended, and must not rely on that."""
    (first,) = world.worker.run(world.worker.queue.enqueue([NewJob(type="a", queue=A)]))
    (ready,) = world.other.run(world.other.queue.enqueue([NewJob(type="b", queue=B)]))
    world.worker.run(world.worker.control.cancel([ready.job_id]))
    world.succeed_unheard(world.claim())
    behind = NewJob(type="b", queue=B, after=Dependencies((first.job_id,)))
    with pytest.raises(UnknownOutcomeError):
        world.other.run(world.other.queue.enqueue([behind]))
    assert world.other.run(world.other.reader.count(JobFilter(type="b"))) == 1
    world.hear()
    (reply,) = world.other.run(world.other.queue.enqueue([behind]))
    assert world.state(reply.job_id) is State.SCHEDULED


def test_a_key_that_no_replica_has_confirmed_refuses_nothing_for_sure(world: World) -> None:
    """Its holder may be taken back: that the job was submitted before is not known yet."""
    key = Key("k", on_duplicate=OnDuplicate.REJECT)
    new = [NewJob(type="a", queue=A, key=key), NewJob(type="b", queue=B)]
    known = [NewJob(type="a", queue=A, key=Key("other")), NewJob(type="b", queue=B)]
    for store in (world.worker, world.other):  # both know the partitions and the type with keys
        store.run(store.queue.enqueue(known))
    world.replica.freeze()
    with pytest.raises(UnknownOutcomeError):
        world.worker.run(world.worker.queue.enqueue(new[:1]))
    with pytest.raises(UnknownOutcomeError):
        world.other.run(world.other.queue.enqueue(new, atomic=True))
    world.hear()
    with pytest.raises(DuplicateJobError):
        world.other.run(world.other.queue.enqueue(new, atomic=True))
    assert world.other.run(world.other.reader.count(JobFilter(type="b"))) == 2
