"""A limit of the whole app: never more jobs run in all partitions, and no room is lost.

Only here, since it is about steps between partitions; what the limit promises is in the suite.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.errors import StoreUnavailableError
from fencepost.generators import drive
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.redis.partitions.hub import HOME, LOOK, SHARE, WRITE, PartitionCall
from fencepost.store.redis.partitions.numbers import partition_of
from fencepost.store.redis.partitions.quotas import (
    WISH_US,
    _begin,
    _change,
    _raise,
    grants,
    level,
    lower,
    make_room,
    running,
)
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.testing.clock import FakeClock

A, B, C = "a", "b", "c"
AT = {queue: partition_of(queue) for queue in (A, B, C)}


class World:
    """A store with partitions and jobs in three of them."""

    def __init__(self, url: str, prefix: str) -> None:
        self.clock = FakeClock()
        self.store = PartitionedStore(url, clock=self.clock, prefix=prefix)
        for queue in (A, B, C):
            jobs = [NewJob(type=f"of-{queue}", queue=queue) for _ in range(9)]
            self.store.run(self.store.queue.enqueue(jobs))

    def limit(self, most: int | None) -> None:
        self.store.run(self.store.settings.limit(Scope.APP, "", most))

    def claim(self, queue: str | None, count: int = 9) -> list[ClaimedJob]:
        queues = None if queue is None else {queue: 1}
        request = ClaimRequest(worker="w", limit=count, queues=queues)
        return list(self.store.run(self.store.queue.claim(request)).jobs)

    def finish(self, *jobs: ClaimedJob) -> None:
        for each in jobs:
            decision = decide(each, Succeeded(Body(b"1")), self.clock.rng)
            settlement = Settlement(each.id, each.lease.token, decision)
            self.store.run(self.store.queue.settle([settlement]))

    def ask(self, number: int, plan: Any, *args: Any, declaration: Any = WRITE) -> Any:
        at = self.store._hub.at(number)
        return at.run(at.plan(declaration, plan, *args).operation)

    def quota(self, queue: str) -> int:
        return int(self.ask(AT[queue], level, declaration=LOOK).quota)

    @property
    def running(self) -> int:
        return drive(running(self.store._hub), self.store._perform)


@pytest.fixture
def world(runtime_url: str, redis_prefix: str) -> Iterator[World]:
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"
    made = World(url, redis_prefix)
    yield made
    made.store.close()


def test_room_goes_to_where_it_is_wanted(world: World) -> None:
    world.limit(3)
    held = world.claim(A)
    assert len(held) == 3
    assert world.claim(B) == []
    world.finish(*held)
    world.clock.advance(WISH_US / 1e6)  # nobody claims for the others any more
    assert len(world.claim(C)) == 3
    assert world.claim(A) == world.claim(None) == []
    assert world.running == 3


def test_partitions_that_wait_have_equal_shares(world: World) -> None:
    """One that has everything starts nothing more until the others have theirs."""
    world.limit(3)
    held = world.claim(A)
    for queue in (B, C):
        world.clock.advance(0.1)
        assert world.claim(queue) == []
    for queue in (B, C):
        world.finish(held.pop())
        assert world.claim(A) == []
        assert len(world.claim(queue)) == 1
    assert world.running == 3


def test_one_slot_goes_round(world: World) -> None:
    """With less room than partitions, each that waits has its turn."""
    world.limit(1)
    (held,) = world.claim(A)
    seen = []
    for _ in range(6):
        for queue in (B, C, A):
            assert world.claim(queue) == []
        world.finish(held)
        for queue in (A, B, C):
            for job in world.claim(queue):
                held = job
                seen.append(queue)
        world.clock.advance(0.1)
    assert len(seen) == 6
    assert {seen.count(queue) for queue in (A, B, C)} == {2}


def test_a_raise_that_was_delayed_is_refused(world: World) -> None:
    """Its process raised the bound, and sleeps; another one takes the room back meanwhile."""
    world.limit(2)
    known = world.ask(HOME, grants, declaration=LOOK)
    assert world.ask(HOME, _change, known.number, {AT[A]: 2}, {})
    assert len(world.claim(B)) == 2
    assert world.ask(AT[A], _raise, known.number + 1, 2) is False
    assert world.claim(A) == []
    assert world.running == 2


def test_a_reduction_that_was_delayed_changes_nothing(world: World) -> None:
    world.limit(2)
    known = world.ask(HOME, grants, declaration=LOOK)
    assert len(world.claim(A, 1)) == 1
    assert world.ask(AT[A], lower, known.number, 0) is False
    assert world.ask(HOME, _change, known.number, {AT[A]: 0}, {}) is False
    assert world.quota(A) == 1


def test_what_runs_counts_when_a_quota_is_lowered(world: World) -> None:
    world.claim(A, 4)
    world.limit(5)
    assert world.quota(A) == 0
    assert len(world.claim(B)) == 1
    assert world.running == 5


def test_room_that_a_dead_process_took_is_found_again(world: World) -> None:
    """It raised the bound of a partition, and died before the partition knew."""
    world.limit(2)
    known = world.ask(HOME, grants, declaration=LOOK)
    world.ask(HOME, _change, known.number, {AT[A]: 2}, {})
    assert len(world.claim(C)) == 2


def test_a_limit_whose_setter_died_is_put_into_effect_by_a_claim(world: World) -> None:
    """Until then nothing that was limited before starts anything."""
    world.limit(1)
    world.ask(HOME, _begin, 2, declaration=SHARE)
    assert world.ask(HOME, grants, declaration=LOOK).is_opening
    assert len(world.claim(A)) == 2
    assert world.claim(B) == []


def test_a_limit_that_was_half_taken_off_holds_nobody_back(world: World) -> None:
    world.limit(1)
    assert len(world.claim(A)) == 1
    world.ask(HOME, _begin, None, declaration=SHARE)
    assert len(world.claim(A)) == 8
    assert len(world.claim(B)) == 9


def test_a_partition_that_comes_later_is_limited_too(runtime_url: str, redis_prefix: str) -> None:
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"
    store = PartitionedStore(url, clock=FakeClock(), prefix=redis_prefix)
    store.run(store.settings.limit(Scope.APP, "", 2))
    for queue in (A, B):
        store.run(store.queue.enqueue([NewJob(type="x", queue=queue) for _ in range(3)]))
        at = store._hub.at(AT[queue])
        request = ClaimRequest(worker="w", limit=9)
        assert at.run(at.queue.claim(request)).jobs == []
    assert len(store.run(store.queue.claim(request)).jobs) == 2
    store.close()


def test_a_partition_that_is_away_keeps_its_room(world: World, monkeypatch: Any) -> None:
    """What may run there is not given to others; the rest is."""
    world.limit(3)
    assert len(world.claim(A, 1)) == 1
    usual = world.store.call

    def call(call: PartitionCall) -> Any:
        if getattr(call.store, "number", None) == AT[A]:
            raise StoreUnavailableError("away")
        return usual(call)

    monkeypatch.setattr(world.store, "call", call)
    assert len(world.claim(B)) == 2
    monkeypatch.undo()
    assert world.running == 3


def test_no_room_is_asked_for_without_a_limit(world: World, monkeypatch: Any) -> None:
    """Who sets no limit does not pay for one."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("fencepost.store.redis.partitions.leases.make_room", refuse)
    assert len(world.claim(None, 5)) == 5
    assert make_room is not refuse


def test_claimers_of_all_partitions_never_exceed_the_limit(
    runtime_url: str, redis_prefix: str
) -> None:
    """C32: eight at once, each with a store of its own; every job is done."""
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"
    stores = [PartitionedStore(url, prefix=redis_prefix) for _ in range(8)]
    first = stores[0]
    first.run(first.settings.limit(Scope.APP, "", 3))
    for queue in (A, B, C):
        first.run(first.queue.enqueue([NewJob(type="x", queue=queue) for _ in range(12)]))
    lock = threading.Lock()
    state = {"running": 0, "most": 0, "done": 0}

    def work(store: PartitionedStore, queue: str | None) -> None:
        request = ClaimRequest(worker="w", limit=2, queues=None if queue is None else {queue: 1})
        for _ in range(400):
            jobs = store.run(store.queue.claim(request)).jobs
            with lock:
                state["running"] += len(jobs)
                state["most"] = max(state["most"], state["running"])
            for each in jobs:
                decision = decide(each, Succeeded(Body(b"1")), store.clock.rng)
                with lock:
                    state["running"] -= 1
                store.run(store.queue.settle([Settlement(each.id, each.lease.token, decision)]))
                with lock:
                    state["done"] += 1
            if state["done"] == 36:
                return

    queues = [A, B, C, None, A, B, C, None]
    threads = [
        threading.Thread(target=work, args=(store, queue))
        for store, queue in zip(stores, queues, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for store in stores:
        store.close()
    assert state["done"] == 36
    assert state["most"] <= 3
