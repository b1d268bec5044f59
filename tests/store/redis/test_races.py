"""What changes between a read and a commit: the commit sees it, and the operation starts again.

Not in the conformance suite: only here is there a moment between the two, and a way into it.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.store.redis.meddling import before_commit

from conformance.harness import TTL, Harness
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import TooManyLanesError
from fencepost.store.interface.control import Conflict
from fencepost.store.interface.queue import AlreadySettled, Duplicate, LeaseLost
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.redis.store import RedisStore

INSTANT = timedelta(microseconds=1)


@pytest.fixture
def other(h: Harness) -> RedisStore:
    """Return another process's store, as it were."""
    store = h.open()
    assert isinstance(store, RedisStore)
    return store


def own(h: Harness) -> RedisStore:
    assert isinstance(h.store, RedisStore)
    return h.store


def test_a_lease_that_ends_before_the_commit_settles_nothing(h: Harness) -> None:
    """INV-2: the clock is read again where it counts, in the script that writes."""
    job_id = h.submit()
    claimed = h.take()
    h.advance(timedelta(seconds=TTL) - INSTANT)
    before_commit(own(h), lambda: h.advance(INSTANT))
    assert h.succeed(claimed) == LeaseLost(job_id, State.RUNNING)


@pytest.mark.parametrize("write", ["heartbeat", "save"])
def test_a_lease_that_ends_before_the_commit_writes_nothing(h: Harness, write: str) -> None:
    job_id = h.submit()
    claimed = h.take()
    h.advance(timedelta(seconds=TTL) - INSTANT)
    before_commit(own(h), lambda: h.advance(INSTANT))
    given = {"progress": {"fraction": 0.5, "message": ""}} if write == "save" else {}
    reply = getattr(h, write)(claimed, **given)
    assert reply == LeaseLost(job_id, State.RUNNING)
    assert h.get(job_id).progress is None
    [recovered] = h.run(h.store.upkeep.recover(10))
    assert recovered.job_id == job_id


def test_a_job_that_was_claimed_again_before_the_commit_is_not_settled(h: Harness) -> None:
    """Two settlements of one lease are under way: the one that comes second meets a new lease."""
    h.submit()
    stale = h.take()

    def release_and_claim() -> None:
        h.release(stale)
        assert h.take("w2").id == stale.id

    before_commit(own(h), release_and_claim)
    assert isinstance(h.succeed(stale), AlreadySettled)
    assert h.state(stale.id) is State.RUNNING


def test_a_job_that_ended_before_its_cancellation_is_not_cancelled(h: Harness) -> None:
    job_id = h.submit()
    before_commit(own(h), lambda: h.succeed(h.take()))
    assert h.cancel(job_id) == Conflict(job_id, State.COMPLETED)
    assert h.run(h.store.overview.queues())[0].counts == {State.COMPLETED: 1}


def test_a_job_that_was_claimed_before_its_cancellation_loses_its_lease(h: Harness) -> None:
    """A claim does not change the document: that it has no lease is checked, too."""
    job_id = h.submit()
    before_commit(own(h), lambda: h.take())
    h.cancel(job_id)
    assert h.state(job_id) is State.CANCELLED
    assert [attempt.number for attempt in h.attempts(job_id)] == [1]


def test_of_two_parents_that_end_at_once_neither_is_forgotten(
    h: Harness, other: RedisStore
) -> None:
    """Both read that two are missing: the one that commits second starts again."""
    parents = h.submit_many(2)
    h.enqueue(NewJob(type="child", after=Dependencies(tuple(parents))))
    first, second = h.claim().jobs
    before_commit(own(h), lambda: other.run(other.queue.settle([h.success(second)])))
    h.succeed(first)
    assert h.take().type == "child"


def test_a_job_that_is_submitted_while_numbers_are_forgotten_is_found(
    h: Harness, other: RedisStore
) -> None:
    """Its number was reserved, and not there yet, when all numbers so far were seen to be unused.

    It could be claimed, but no reader saw it, and `fencepost move` would have left it behind.
    """
    request = PruneRequest(limit=10, keep=dict.fromkeys(State, 1.0))
    before_commit(own(h), lambda: other.run(other.upkeep.prune(request)))
    job_id = h.submit()
    assert [job.id for job in h.find()] == [job_id]
    assert [record.job.id for record in h.run(h.store.transfer.dump(0, 10)).records] == [job_id]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_numbers_are_not_forgotten_under_a_job_that_has_just_come(
    h: Harness, other: RedisStore, number: int
) -> None:
    """It came after the look at its number, and before what was seen was written down."""
    h.submit()
    h.succeed(h.take())
    request = PruneRequest(limit=10, keep=dict.fromkeys(State, 1.0))
    h.advance(timedelta(hours=1))
    h.run(h.store.upkeep.prune(request))
    jobs: list[str] = []
    before_commit(other, lambda: jobs.append(h.submit()), number)
    other.run(other.upkeep.prune(request))
    assert len(jobs) == 1, "there was no such moment"
    assert [job.id for job in h.find()] == jobs


def test_of_two_that_take_a_key_at_once_one_has_it(h: Harness, other: RedisStore) -> None:
    keyed = NewJob(type="mail", key=Key("k", None))
    h.cancel(h.submit(key=Key("k", None)))  # so that there is a field, and its value changes
    before_commit(own(h), lambda: other.run(other.queue.enqueue([keyed])))
    [reply] = h.enqueue(keyed)
    assert isinstance(reply, Duplicate)
    assert len(h.find(states=(State.SCHEDULED,))) == 1


def test_of_two_that_open_the_last_lane_at_once_one_may(
    h: Harness, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.core.bounds.LANES_MAX", 2)
    h.submit("first")
    before_commit(own(h), lambda: other.run(other.queue.enqueue([NewJob(type="second")])))
    with pytest.raises(TooManyLanesError):
        h.submit("third")
    assert len(h.run(h.store.overview.types())) == 2
