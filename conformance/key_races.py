"""Concurrency keys under many workers at once, and on the way to another store."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from conformance.concurrency_keys import keyed, states
from conformance.harness import DONE, TTL, Harness, Run, ids
from conformance.transfer import dump, elsewhere, load
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome, Released, Settlement, Snoozed, Succeeded, decide
from fencepost.core.job.policy import Backoff, Policy, Priority
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import Claim, ClaimRequest, Settled
from fencepost.store.interface.store import Store

__all__ = ["TestMovingKeys", "TestRacingKeys"]

OFTEN = Policy(max_attempts=100, backoff=Backoff("constant", 0.0))
STEPS_MAX = 2_000


class Census:
    """Who is under way, as the workers see it; two of them never agree on too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self.most = 0

    def enter(self, key: str) -> None:
        with self._lock:
            self._running[key] += 1
            self.most = max(self.most, self._running[key])
            assert self._running[key] <= self._limit, f"{self._running[key]} jobs of {key} run"

    def leave(self, key: str) -> None:
        with self._lock:
            self._running[key] -= 1


class TestRacingKeys:
    """Strict under many claimers; and nobody is forgotten."""

    @pytest.mark.parametrize("stores", [1, 4])
    @pytest.mark.parametrize("limit", [1, 2])
    def test_racing_workers_never_run_more_of_a_key_than_may_be(
        self, h: Harness, stores: int, limit: int
    ) -> None:
        keys = {
            job_id: key
            for key in ("A", "B", "C")
            for job_id in h.submit_all(*[keyed(key=key, limit=limit, policy=OFTEN)] * 12)
        }
        census = Census(limit)

        async def work(store: Store, run: Run) -> None:
            rng = Random(h.clock.rng.random())
            for _ in range(STEPS_MAX):
                claim: Claim = await run(
                    store.queue.claim(ClaimRequest(worker="w", limit=rng.choice((1, 2, 5))))
                )
                for each in claim.jobs:
                    census.enter(keys[each.id])
                for each in claim.jobs:
                    outcome = rng.choice(outcomes)
                    # Before the reply: another may take the slot before this one has its reply.
                    census.leave(keys[each.id])
                    [reply] = await run(store.queue.settle([_settlement(h, each, outcome)]))
                    assert isinstance(reply, Settled)
                if not claim.jobs and await _is_over(store, run):
                    return
            raise AssertionError("the jobs do not come to an end")

        done = Succeeded(DONE)
        outcomes: list[Outcome] = [done, done, done, done, Released(), Snoozed(0.0)]
        h.race_scripts([work] * 8, h.peers(stores))
        assert set(states(h, list(keys))) == {State.COMPLETED}
        assert census.most == limit

    def test_a_submission_and_the_end_of_the_last_job_leave_nobody_behind(self, h: Harness) -> None:
        """Either the new job finds the slot free, or the job that frees it finds the new one."""
        [first] = h.submit_all(keyed())
        peers = h.peers(2)
        for _ in range(25):
            running = h.take()
            h.race(
                [
                    lambda store, each=running: store.queue.settle([h.success(each)]),  # type: ignore[misc]
                    lambda store: store.queue.enqueue([keyed()]),
                ],
                peers,
            )
        [last] = h.claim().jobs
        assert last.id != first
        h.succeed(last)
        assert h.claim().jobs == []
        assert {each.state for each in h.find()} == {State.COMPLETED}

    def test_submissions_at_once_take_no_more_slots_than_there_are(self, h: Harness) -> None:
        peers = h.peers(4)
        new = keyed(limit=2)
        for _ in range(12):  # the first time the key is new, which is another race
            h.race([lambda store: store.queue.enqueue([new, new])] * 8, peers)
            batch = h.claim(50).jobs
            assert len(batch) == 2
            for _ in range(7):
                h.succeed_all(batch)
                batch = h.claim(50).jobs
                assert len(batch) == 2
            h.succeed_all(batch)

    def test_ends_of_one_key_at_once_leave_nobody_behind(self, h: Harness) -> None:
        job_ids = h.submit_all(*[keyed(limit=4)] * 40)
        peers = h.peers(4)
        for _ in range(10):
            running = h.claim(10).jobs
            assert len(running) == 4
            h.race(
                [
                    lambda store, each=each: store.queue.settle([h.success(each)])  # type: ignore[misc]
                    for each in running
                ],
                peers,
            )
        assert set(states(h, job_ids)) == {State.COMPLETED}

    def test_cancelling_and_ending_at_once_leave_nobody_behind(self, h: Harness) -> None:
        peers = h.peers(2)
        for _ in range(15):
            first, second, third = h.submit_all(*[keyed()] * 3)
            running = h.take()
            assert running.id == first
            h.race(
                [
                    lambda store, each=running: store.queue.settle([h.success(each)]),  # type: ignore[misc]
                    lambda store, each=second: store.control.cancel([each]),  # type: ignore[misc]
                ],
                peers,
            )
            assert h.state(second) is State.CANCELLED
            assert h.take().id == third
            h.cancel(third)

    def test_crashed_workers_give_their_slots_back_by_recovery(self, h: Harness) -> None:
        job_ids = h.submit_all(*[keyed(limit=2, policy=OFTEN)] * 6)
        for _ in range(5):
            assert len(h.claim(10, lease_ttl=TTL).jobs) == 2
            h.advance(TTL)
        for _ in range(len(job_ids) * 3):
            batch = h.claim(10).jobs
            assert len(batch) <= 2
            h.succeed_all(batch)
        assert set(states(h, job_ids)) == {State.COMPLETED}

    def test_upkeep_of_many_at_once_lets_in_no_more_than_may_be(self, h: Harness) -> None:
        h.submit_all(*[keyed(limit=3, delay=1.0)] * 20)
        h.advance(1)
        h.race([lambda store: store.upkeep.promote(3)] * 8, h.peers(4))
        h.run(h.store.upkeep.promote(100))
        assert len(h.claim(50).jobs) == 3


def fill(h: Harness) -> list[str]:
    """Make jobs of one key, the last of which has the slot."""
    first, second = h.submit_all(keyed(), keyed())
    h.advance(1)
    [last] = h.submit_all(keyed(priority=Priority.HIGH))
    h.succeed(h.take())
    h.cancel(second)
    h.advance(1)
    more = h.submit_all(keyed(), keyed())
    assert states(h, [first, last, *more]) == [
        State.COMPLETED,
        State.SCHEDULED,
        State.PENDING,
        State.PENDING,
    ]
    h.run(h.store.control.edit([Edit(last, priority=Priority.LOW)]))
    h.snooze(h.take(), 0.0)
    h.run(h.store.upkeep.promote(10))
    return [first, second, last, *more]


def run_out(h: Harness) -> list[str]:
    """Run what is left, one by one; return the order."""
    order = []
    while jobs := h.claim().jobs:
        assert len(jobs) == 1
        order += ids(jobs)
        h.succeed_all(jobs)
    return order


async def _is_over(store: Store, run: Run) -> bool:
    views = await run(store.overview.queues())
    return all(state.is_terminal for view in views for state in view.counts)


def _settlement(h: Harness, claimed: ClaimedJob, outcome: Outcome) -> Settlement:
    return Settlement(claimed.id, claimed.lease.token, decide(claimed, outcome, h.clock.rng))


class TestMovingKeys:
    """Jobs with keys in another store."""

    @pytest.mark.parametrize("page", [1, 10])
    def test_they_are_there_as_they_were_here(self, h: Harness, page: int) -> None:
        """Also page by page, when one that waits comes before the one that has the slot."""
        job_ids = fill(h)
        with elsewhere(h) as other:
            h.advance(5)
            for start in range(0, len(job_ids), page):
                load(other, dump(h)[start : start + page])
            for job_id in job_ids:
                assert other.get(job_id) == h.get(job_id)
            assert run_out(other) == run_out(h)

    @pytest.mark.parametrize("page", [1, 10])
    def test_they_are_here_as_they_were_there(self, h: Harness, page: int) -> None:
        with elsewhere(h) as other:
            job_ids = fill(other)
            h.advance(5)
            for start in range(0, len(job_ids), page):
                load(h, dump(other)[start : start + page])
            for job_id in job_ids:
                assert h.get(job_id) == other.get(job_id)
            assert run_out(h) == run_out(other)

    def test_a_waiting_job_that_comes_alone_is_let_in_by_a_claim(self, h: Harness) -> None:
        with elsewhere(h) as other:
            other.submit_all(keyed(), keyed())
            _, waiting = dump(other)
            load(h, [waiting])
        assert h.state(waiting.job.id) is State.PENDING
        assert ids(h.claim().jobs) == [waiting.job.id]

    def test_one_that_is_known_takes_no_second_slot(self, h: Harness) -> None:
        with elsewhere(h) as other:
            other.submit_all(keyed(limit=2), keyed(limit=2), keyed(limit=2))
            records = dump(other)
            for _ in range(3):
                load(h, records)
        assert len(h.claim().jobs) == 2
        h.succeed_all(h.claim(0).jobs)

    def test_those_that_arrive_wait_behind_those_that_are_there(self, h: Harness) -> None:
        [own] = h.submit_all(keyed())
        with elsewhere(h) as other:
            arrived = other.submit_all(keyed(), keyed())
            load(h, dump(other, limit=1))
        assert states(h, [own, *arrived]) == [State.SCHEDULED, State.PENDING, State.PENDING]
        for job_id in (own, *arrived):
            claimed = h.take()
            assert claimed.id == job_id
            h.succeed(claimed)

    def test_one_that_has_ended_takes_no_slot_there(self, h: Harness) -> None:
        with elsewhere(h) as other:
            other.submit_all(keyed())
            other.succeed(other.take())
            load(h, dump(other))
        [reply] = h.enqueue(keyed())
        assert reply.state is State.SCHEDULED

    def test_a_limit_is_kept_page_by_page(self, h: Harness) -> None:
        with elsewhere(h) as other:
            other.submit_all(*[replace(keyed(), queue=f"q{n}") for n in range(6)])
            records = dump(other)
            for record in reversed(records):
                load(h, [record])
        assert len(h.claim(10).jobs) == 1
