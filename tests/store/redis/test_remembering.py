"""Settlements that rely on what the claim has read: every race that this opens is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from conformance.harness import job
from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import Body, ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.values.times import to_us
from fencepost.errors import UnknownOutcomeError
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    ClaimRequest,
    Extended,
    LeaseLost,
    Settled,
)
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


class Desk:
    """A store, and how often it asked the server."""

    def __init__(self, url: str, prefix: str, clock: FakeClock | None) -> None:
        self.store = RedisStore(url, prefix=prefix, clock=clock)
        self.asked: list[str] = []
        self.lose_next = False
        self._run = self.store._connections.run
        self.store._connections.run = self._note  # type: ignore[method-assign]

    def _note(self, name: str, *words: Any, **options: Any) -> Any:
        self.asked.append(name)
        answer = self._run(name, *words, **options)
        if self.lose_next:
            self.lose_next = False
            raise UnknownOutcomeError("the reply was lost")
        return answer

    def submit(self, **fields: Any) -> str:
        (reply,) = self.store.run(self.store.queue.enqueue([job(**fields)]))
        return reply.job_id

    def claim(self, limit: int = 1) -> list[ClaimedJob]:
        return list(
            self.store.run(self.store.queue.claim(ClaimRequest(worker="w", limit=limit))).jobs
        )

    def settle(self, *claimed: ClaimedJob) -> list[Any]:
        return self.store.run(self.store.queue.settle([self.done(each) for each in claimed]))

    def done(self, claimed: ClaimedJob) -> Settlement:
        result = Succeeded(Body(b"1", claimed.payload.encoding))
        decision = decide(claimed, result, self.store.clock.rng)
        return Settlement(claimed.id, claimed.lease.token, decision)

    def state(self, job_id: str) -> State:
        (found,) = self.store.run(self.store.reader.get([job_id]))
        assert found is not None
        return found.state


@pytest.fixture
def desks(redis_url: str, redis_prefix: str, clock: FakeClock) -> Iterator[tuple[Desk, Desk]]:
    """Return two processes' stores, as it were."""
    both = (Desk(redis_url, redis_prefix, clock), Desk(redis_url, redis_prefix, clock))
    yield both
    for desk in both:
        desk.store.close()


def test_a_job_takes_three_calls(desks: tuple[Desk, Desk]) -> None:
    desk, _ = desks
    desk.submit()  # the first makes the lane
    desk.asked.clear()
    desk.submit()
    claimed = desk.claim(2)
    assert [type(reply) for reply in desk.settle(*claimed)] == [Settled, Settled]
    assert desk.asked == ["enqueue", "claim", "commit"]


def test_a_lease_that_ends_on_the_way_is_lost(
    desks: tuple[Desk, Desk], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller believes that there is time; the server decides."""
    desk, _ = desks
    job_id = desk.submit()
    (claimed,) = desk.claim()
    before = clock.now_us()
    clock.advance(3600)
    monkeypatch.setattr(Env, "believe", lambda _: before)
    assert desk.settle(claimed) == [LeaseLost(job_id, State.RUNNING)]
    assert desk.state(job_id) is State.RUNNING


def test_a_wrong_belief_about_the_time_is_corrected(redis_url: str, redis_prefix: str) -> None:
    """A clock that was set, here or there: nothing is written with a time that is not."""
    desk = Desk(redis_url, redis_prefix, None)
    job_id = desk.submit()
    (claimed,) = desk.claim()
    held = desk.store._env.held
    held.note(to_us(claimed.lease.expires_at) - 5_000_000, desk.store.clock.monotonic())
    desk.asked.clear()
    assert [type(reply) for reply in desk.settle(claimed)] == [Settled]
    assert desk.asked == ["commit", "read", "read", "commit"]
    (found,) = desk.store.run(desk.store.reader.get([job_id]))
    assert found is not None
    assert found.completed_at is not None
    assert abs(to_us(found.completed_at) - desk.store.clock.now_us()) < 5_000_000
    desk.store.close()


def test_a_lost_reply_is_told_when_repeated(desks: tuple[Desk, Desk]) -> None:
    desk, other = desks
    job_id = desk.submit()
    (claimed,) = desk.claim()
    desk.lose_next = True
    with pytest.raises(UnknownOutcomeError):
        desk.settle(claimed)
    assert desk.settle(claimed) == [AlreadySettled(job_id, State.COMPLETED)]
    assert other.settle(claimed) == [AlreadySettled(job_id, State.COMPLETED)]


def test_two_settlements_of_one_token_are_one(desks: tuple[Desk, Desk]) -> None:
    desk, other = desks
    job_id = desk.submit()
    (claimed,) = desk.claim()
    assert [type(reply) for reply in other.settle(claimed)] == [Settled]
    assert desk.settle(claimed) == [AlreadySettled(job_id, State.COMPLETED)]


def test_a_batch_of_which_one_is_not_remembered_is_read(desks: tuple[Desk, Desk]) -> None:
    """Another process has claimed it, and its lease is good all the same."""
    desk, other = desks
    ids = [desk.submit(), desk.submit()]
    claimed = [*desk.claim(), *other.claim()]
    assert [type(reply) for reply in desk.settle(*claimed)] == [Settled, Settled]
    assert [desk.state(each) for each in ids] == [State.COMPLETED, State.COMPLETED]


def test_an_id_is_answered_as_it_was_given(desks: tuple[Desk, Desk]) -> None:
    desk, _ = desks
    desk.submit()
    (claimed,) = desk.claim()
    given = replace(desk.done(claimed), job_id=claimed.id.upper())
    (reply,) = desk.store.run(desk.store.queue.settle([given]))
    assert (type(reply), reply.job_id) == (Settled, claimed.id.upper())


def test_jobs_that_end_together_are_counted_by_queue_and_type(desks: tuple[Desk, Desk]) -> None:
    desk, _ = desks
    lanes = [("mail", "a"), ("mail", "b"), ("sms", "a")]
    for type_, queue in lanes:
        desk.submit(type=type_, queue=queue)
    assert [type(reply) for reply in desk.settle(*desk.claim(3))] == [Settled] * 3
    reader = desk.store.reader
    for type_, queue in lanes:
        completed = JobFilter(type=type_, queue=queue, states=(State.COMPLETED,))
        assert desk.store.run(reader.count(completed)) == 1


def test_jobs_that_ended_at_different_times_stay_in_that_order(
    desks: tuple[Desk, Desk], clock: FakeClock, redis_url: str, redis_prefix: str
) -> None:
    """A job that comes to wait for both changes both in one commit."""
    desk, _ = desks
    ids = [desk.submit(), desk.submit()]
    for claimed in (desk.claim(), desk.claim()):
        desk.settle(*claimed)
        clock.advance(60)
    with redis.Redis.from_url(redis_url) as client:
        before = client.zrange(f"{redis_prefix}ended", 0, -1, withscores=True)
        desk.submit(after=Dependencies(tuple(ids)))
        after = client.zrange(f"{redis_prefix}ended", 0, -1, withscores=True)
    assert len({score for _, score in before}) == 2
    assert after == before


def test_a_job_that_was_cancelled_meanwhile_stays_so(desks: tuple[Desk, Desk]) -> None:
    desk, other = desks
    ids = [desk.submit(), desk.submit()]
    claimed = desk.claim(2)
    other.store.run(other.store.control.cancel([ids[0]]))
    replies = desk.settle(*claimed)
    assert replies[0] == LeaseLost(ids[0], State.CANCELLED)
    assert isinstance(replies[1], Settled)
    assert [desk.state(each) for each in ids] == [State.CANCELLED, State.COMPLETED]


def test_a_job_that_came_to_wait_meanwhile_is_released(desks: tuple[Desk, Desk]) -> None:
    desk, other = desks
    first = desk.submit()
    (claimed,) = desk.claim()
    second = other.submit(after=Dependencies((first,)))
    assert other.state(second) is State.PENDING
    (reply,) = desk.settle(claimed)
    assert [moved.state for moved in reply.followed] == [State.SCHEDULED]
    assert other.state(second) is State.SCHEDULED


def test_a_lease_that_was_extended_is_the_same(desks: tuple[Desk, Desk], clock: FakeClock) -> None:
    desk, other = desks
    desk.submit()
    (claimed,) = desk.claim()
    clock.advance(1)
    beat = Beat(claimed.id, claimed.lease.token)
    (reply,) = other.store.run(other.store.queue.heartbeat([beat]))
    assert isinstance(reply, Extended)
    desk.asked.clear()
    assert [type(each) for each in desk.settle(claimed)] == [Settled]
    assert desk.asked == ["commit"]


def test_a_job_that_was_claimed_anew_is_not_settled_by_the_old_token(
    desks: tuple[Desk, Desk], clock: FakeClock
) -> None:
    desk, _ = desks
    job_id = desk.submit()
    (old,) = desk.claim()
    clock.advance(3600)
    new: list[ClaimedJob] = []
    while not new:  # recovered, and due again after a pause
        new = desk.claim()
        clock.advance(10)
    assert desk.settle(old) == [LeaseLost(job_id, State.RUNNING)]
    assert [type(reply) for reply in desk.settle(new[0])] == [Settled]


def test_a_server_that_forgot_its_scripts_is_told_again(
    desks: tuple[Desk, Desk], redis_url: str
) -> None:
    desk, _ = desks
    desk.submit()
    with redis.Redis.from_url(redis_url) as client:
        client.script_flush()
        job_id = desk.submit()
        client.script_flush()
        claimed = desk.claim(2)
        client.script_flush()
        assert [type(reply) for reply in desk.settle(*claimed)] == [Settled, Settled]
    assert desk.state(job_id) is State.COMPLETED
