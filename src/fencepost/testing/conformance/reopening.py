"""Retry by hand: the same job, a new budget of attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fencepost.core.idempotency import Key
from fencepost.core.lifecycle import State
from fencepost.core.policy import Policy
from fencepost.core.priority import Priority
from fencepost.store.replies import Conflict, Duplicate, Enqueued, Moved, NotFound
from fencepost.store.requests import RetryRequest
from fencepost.testing.conformance.harness import (
    LIVE,
    NOBODY,
    ONE_ATTEMPT,
    TERMINAL,
    Harness,
    ids,
    job,
)

__all__ = ["TestReopening"]

REOPENABLE = tuple(state for state in TERMINAL if state is not State.COMPLETED)
ACTIVE = Key("k", window=None)


class TestReopening:
    @pytest.mark.parametrize("state", REOPENABLE, ids=str)
    def test_a_job_that_ended_badly_can_run_again(self, h: Harness, state: State) -> None:
        """S0-61, S1-3, S1-19, S3-8, C7, C36: the same id, claimable now, off the dead letters."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        now = h.advance(60.0)
        assert h.retry(job_id) == Moved(job_id, "mail", State.SCHEDULED, state)
        seen = h.get(job_id)
        assert (seen.state, seen.attempt) == (State.SCHEDULED, 0)
        assert seen.max_attempts == seen.policy.max_attempts
        assert (seen.run_at, seen.scheduled_at, seen.updated_at) == (now, now, now)
        assert seen.expires_at == now + timedelta(days=7)
        assert (seen.completed_at, seen.failure, seen.result) == (None, None, None)
        assert (seen.created_at, seen.priority) == (before.created_at, before.priority)
        assert seen.lease_version == before.lease_version
        assert h.letters() == []
        claimed = h.take()
        assert (claimed.id, claimed.attempt) == (job_id, 1)
        assert claimed.lease.version > before.lease_version

    @pytest.mark.parametrize("state", [*LIVE, State.COMPLETED], ids=str)
    def test_a_live_or_completed_job_is_not_reopened(self, h: Harness, state: State) -> None:
        """S0-12, S1-30, C37: refused, and nothing changes."""
        job_id = h.job_in(state)
        before = h.snapshot()
        assert h.retry(job_id, delay=5.0, priority=Priority.HIGH) == Conflict(job_id, state)
        assert h.snapshot() == before

    def test_a_retry_may_wait(self, h: Harness) -> None:
        """S3-8, C36."""
        job_id = h.job_in(State.FAILED)
        scheduled = h.get(job_id).scheduled_at
        h.advance(1.0)
        assert h.retry(job_id, delay=30.0) == Moved(job_id, "mail", State.DELAYED, State.FAILED)
        seen = h.get(job_id)
        assert seen.run_at == h.now + timedelta(seconds=30)
        assert seen.scheduled_at in (scheduled, None)
        h.advance(30.0 - 0.000001)
        assert h.claim().jobs == []
        h.advance(0.000001)
        assert h.take().id == job_id

    def test_a_retry_may_change_the_priority(self, h: Harness) -> None:
        """S1-106, C36."""
        job_id = h.job_in(State.FAILED, priority=Priority.LOW)
        other = h.submit()
        h.retry(job_id, priority=Priority.CRITICAL)
        assert ids(h.claim().jobs) == [job_id, other]
        assert h.get(job_id).priority is Priority.CRITICAL

    def test_without_a_reset_there_is_exactly_one_more_attempt(self, h: Harness) -> None:
        """C36."""
        job_id = h.job_in(State.DEAD_LETTER)
        h.retry(job_id, reset_attempts=False)
        assert (h.get(job_id).attempt, h.get(job_id).max_attempts) == (1, 2)
        claimed = h.take()
        assert (claimed.attempt, claimed.max_attempts) == (2, 2)
        h.fail(claimed)
        assert h.state(job_id) is State.DEAD_LETTER

    def test_a_reset_gives_the_whole_budget(self, h: Harness) -> None:
        """C36, S0-22: also after a retry that gave only one more attempt."""
        job_id = h.submit(policy=Policy(max_attempts=2))
        h.reject(h.take())
        h.retry(job_id, reset_attempts=False)
        h.reject(h.take())
        h.retry(job_id)
        assert (h.get(job_id).attempt, h.get(job_id).max_attempts) == (0, 2)

    def test_a_job_cancelled_before_it_started_gets_one_attempt(self, h: Harness) -> None:
        """C36."""
        job_id = h.job_in(State.CANCELLED)
        h.retry(job_id, reset_attempts=False)
        assert (h.get(job_id).attempt, h.get(job_id).max_attempts) == (0, 1)

    def test_a_key_held_by_another_job_forbids_the_retry(self, h: Harness) -> None:
        """S3-18, C36: refused with the holder; the job stays as it is."""
        job_id = h.job_in(State.DEAD_LETTER, key=ACTIVE)
        holder = h.submit(key=ACTIVE)
        before = h.snapshot()
        assert h.retry(job_id) == Duplicate(holder, "mail", "k", State.SCHEDULED, True)
        assert h.snapshot() == before
        h.cancel(holder)
        assert h.retry(job_id) == Moved(job_id, "mail", State.SCHEDULED, State.DEAD_LETTER)

    def test_a_key_in_the_window_of_another_job_forbids_the_retry(self, h: Harness) -> None:
        """S3-18, C15: windows count, also those of jobs that have ended."""
        job_id = h.job_in(State.FAILED, key=Key("k", window=10.0))
        h.advance(10.0)
        holder = h.job_in(State.COMPLETED, key=Key("k", window=100.0))
        assert h.retry(job_id) == Duplicate(holder, "mail", "k", State.COMPLETED, True)
        h.advance(100.0)
        assert h.retry(job_id) == Moved(job_id, "mail", State.SCHEDULED, State.FAILED)

    def test_a_window_counts_anew_from_the_retry(self, h: Harness) -> None:
        """S3-17, S1-10, C36."""
        job_id = h.job_in(State.FAILED, key=Key("k", window=100.0))
        h.advance(90.0)
        h.retry(job_id)
        h.succeed(h.take())
        h.advance(100.0 - 0.000001)
        assert h.enqueue(job(key=Key("k"))) == [
            Duplicate(job_id, "mail", "k", State.COMPLETED, False)
        ]
        h.advance(0.000001)
        assert isinstance(h.enqueue(job(key=Key("k")))[0], Enqueued)

    def test_two_ended_jobs_of_one_key_cannot_both_come_back(self, h: Harness) -> None:
        """S3-17, S3-18: not in one batch either."""
        first = h.job_in(State.FAILED, key=ACTIVE)
        second = h.job_in(State.FAILED, key=ACTIVE)
        requests = [RetryRequest(first), RetryRequest(second)]
        assert h.run(h.store.retry(requests)) == [
            Moved(first, "mail", State.SCHEDULED, State.FAILED),
            Duplicate(first, "mail", "k", State.SCHEDULED, True),
        ]

    def test_a_reopened_job_that_fails_is_a_dead_letter_again(self, h: Harness) -> None:
        """S3-22, C7."""
        job_id = h.job_in(State.DEAD_LETTER)
        h.retry(job_id)
        h.advance(5.0)
        h.fail(h.take())
        [letter] = h.letters()
        assert (letter.job_id, letter.dead_at) == (job_id, h.now)

    def test_each_job_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """C36: in order; the same twice, unknown and malformed ids among them."""
        one = h.job_in(State.CANCELLED)
        two = h.job_in(State.DEAD_LETTER, policy=ONE_ATTEMPT)
        requests = [RetryRequest(each) for each in (one, NOBODY, "no id", one, two)]
        assert h.run(h.store.retry(requests)) == [
            Moved(one, "mail", State.SCHEDULED, State.CANCELLED),
            NotFound(NOBODY),
            NotFound("no id"),
            Conflict(one, State.SCHEDULED),
            Moved(two, "mail", State.SCHEDULED, State.DEAD_LETTER),
        ]
        assert h.run(h.store.retry([])) == []
