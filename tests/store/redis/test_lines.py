"""Lanes: entries of a list that no longer count are passed over, and none is given twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import ids, job
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Body, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.redis.documents.places import BLOCK
from fencepost.store.redis.engine.connections import ServerPin
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def store(redis_url: str, redis_prefix: str, clock: FakeClock) -> Iterator[RedisStore]:
    made = RedisStore(redis_url, prefix=redis_prefix, clock=clock)
    yield made
    made.close()


def submit(store: RedisStore, count: int = 1, **fields: Any) -> list[str]:
    replies = store.run(store.queue.enqueue([job(**fields) for _ in range(count)]))
    return [reply.job_id for reply in replies]


def claim(store: RedisStore, limit: int = 100) -> list[str]:
    return ids(store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit))).jobs)


def get(store: RedisStore, job_id: str) -> Job:
    (found,) = store.run(store.reader.get([job_id]))
    assert found is not None
    return found


def test_what_left_the_middle_of_a_line_is_passed_over(store: RedisStore) -> None:
    made = submit(store, 6)
    store.run(store.control.cancel([made[1], made[2], made[4]]))
    assert claim(store, 2) == [made[0], made[3]]
    assert claim(store) == [made[5]]
    assert claim(store) == []


def test_many_that_left_do_not_hide_the_next(store: RedisStore) -> None:
    made = submit(store, 500)
    store.run(store.control.cancel(made[1:-1]))
    assert claim(store, 2) == [made[0], made[-1]]


def test_a_job_that_moved_there_and_back_is_given_once(store: RedisStore) -> None:
    first, second = submit(store, 2)
    for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW, Priority.NORMAL):
        store.run(store.control.edit([Edit(first, priority=priority)]))
    assert claim(store, 1) == [first]
    assert claim(store) == [second]
    assert claim(store) == []


def test_a_job_that_stands_in_line_twice_is_given_once(store: RedisStore) -> None:
    """Its first entry stays in the middle of the line: it does not count while the job runs."""
    made = submit(store, 3)
    for priority in (Priority.HIGH, Priority.NORMAL):
        store.run(store.control.edit([Edit(made[1], priority=priority)]))
    assert [claim(store, 1) for _ in range(4)] == [*([each] for each in made), []]


def test_a_job_that_was_put_off_has_lost_its_place(store: RedisStore, clock: FakeClock) -> None:
    """Its old entry stays in the middle of the line: it does not count, the new one does."""
    first, middle, last = submit(store, 3)
    later = clock.now() + timedelta(seconds=10)
    store.run(store.control.edit([Edit(middle, run_at=later)]))
    clock.advance(11)
    assert claim(store) == [first, last, middle]
    assert claim(store) == []


def test_a_clock_that_was_set_back_changes_no_order_of_due_times(
    store: RedisStore, clock: FakeClock
) -> None:
    (late,) = submit(store)
    clock.set_back(60)
    (early,) = submit(store)
    assert claim(store) == [early, late]


def test_lifetimes_of_a_block_end_one_after_the_other(store: RedisStore, clock: FakeClock) -> None:
    """The index has one time for many jobs: none is forgotten when the first has come."""
    made = [*submit(store, BLOCK, policy=Policy(lifetime=1_000)), *submit(store, 2)]
    (short,) = submit(store, policy=Policy(lifetime=10))
    (done,) = claim(store, 1)
    clock.advance(11)
    assert [move.job_id for move in store.run(store.upkeep.expire(10))] == [short]
    assert store.run(store.upkeep.expire(10)) == []
    clock.advance(1_000)
    gone: list[str] = []
    while moved := store.run(store.upkeep.expire(100)):
        gone += [move.job_id for move in moved]
    assert sorted(gone) == sorted(made[:BLOCK])
    assert done == made[0]
    assert [get(store, each).state for each in made[BLOCK:]] == [State.SCHEDULED] * 2


def test_a_time_in_the_index_that_is_too_early_is_corrected_once(
    store: RedisStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every claim would look at the jobs of such a block, and in time at those of many."""
    (first,) = submit(store, policy=Policy(lifetime=10))
    submit(store, 2, policy=Policy(lifetime=1_000))
    store.run(store.control.cancel([first]))
    clock.advance(11)
    asked: list[str] = []
    run = store._connections.run

    def note(name: str, *words: Any, pin: ServerPin | None = None) -> Any:
        asked.append(name)
        return run(name, *words, pin=pin)

    monkeypatch.setattr(store._connections, "run", note)
    assert len(claim(store, 1)) == 1
    assert asked.count("claim") == 2, "the first is told that a lifetime seems to have ended"
    asked.clear()
    assert len(claim(store, 1)) == 1
    assert asked == ["claim"]


def test_a_job_that_runs_again_has_a_lifetime_again(store: RedisStore, clock: FakeClock) -> None:
    (job_id,) = submit(store, policy=Policy(lifetime=100))
    (claimed,) = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    decision = decide(claimed, Succeeded(Body(b"1", claimed.payload.encoding)), clock.rng)
    store.run(store.queue.settle([Settlement(claimed.id, claimed.lease.token, decision)]))
    clock.advance(101)
    assert store.run(store.upkeep.expire(10)) == []
    (fresh,) = submit(store, policy=Policy(lifetime=100))
    clock.advance(101)
    assert [move.job_id for move in store.run(store.upkeep.expire(10))] == [fresh]
    assert get(store, job_id).state is State.COMPLETED


def test_a_search_stops_when_no_more_can_come(store: RedisStore, clock: FakeClock) -> None:
    """By the counters, or by the sets that the store works with: not by reading all jobs."""
    submit(store, 1_500)
    (rare,) = submit(store, type="rare")
    (timed,) = submit(store, delay=60)
    read: list[str] = []
    run = store._connections.run

    def note(name: str, *words: object, **options: Any) -> object:
        read.append(name)
        return run(name, *words, **options)

    store._connections.run = note  # type: ignore[method-assign]
    page = PageRequest(limit=50)
    for filter_, expected in (
        (JobFilter(type="rare"), [rare]),
        (JobFilter(states=(State.DELAYED,)), [timed]),
        (JobFilter(states=(State.FAILED,)), []),
        (JobFilter(id_prefix=rare.replace("-", "")), [rare]),
        (JobFilter(queue="nowhere"), []),
    ):
        read.clear()
        assert ids(store.run(store.reader.find(filter_, page)).jobs) == expected
        assert len(read) <= 6, filter_
