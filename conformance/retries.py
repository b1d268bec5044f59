"""Retry by hand: the same job, a new budget of attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from conformance.harness import (
    NOBODY,
    ONE_ATTEMPT,
    TERMINAL,
    TTL,
    Harness,
    ids,
    job,
)
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import Conflict, NotFound, RetryRequest, TooLate
from fencepost.store.interface.queue import Duplicate, Enqueued, Moved

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
        assert (seen.completed_at, seen.failure, seen.result_body) == (None, None, None)
        assert (seen.created_at, seen.priority) == (before.created_at, before.priority)
        assert seen.lease_version == before.lease_version
        assert h.letters() == []
        claimed = h.take()
        assert (claimed.id, claimed.attempt) == (job_id, 1)
        assert claimed.lease.version > before.lease_version

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.RUNNING, State.COMPLETED], ids=str)
    def test_a_job_in_line_or_running_or_completed_is_not_retried(
        self, h: Harness, state: State
    ) -> None:
        """S0-12, S1-30, C37, C45: refused, and nothing changes."""
        job_id = h.job_in(state)
        before = h.snapshot()
        assert h.retry(job_id, delay=5.0, priority=Priority.HIGH) == Conflict(job_id, state)
        assert h.snapshot() == before

    def test_a_job_that_waits_for_others_is_not_retried(self, h: Harness) -> None:
        """C45: it is they who hold it up."""
        child = h.submit(after=Dependencies((h.submit("a"),)))
        before = h.snapshot()
        assert h.retry(child) == Conflict(child, State.PENDING)
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", [State.DELAYED, State.RETRYING], ids=str)
    def test_a_live_job_that_waits_for_its_time_becomes_due_now(
        self, h: Harness, state: State
    ) -> None:
        """S3-8, S3-28, C45: the same job, in line from now on, its lifetime as it was."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        now = h.advance(0.25)
        assert h.retry(job_id) == Moved(job_id, "mail", State.SCHEDULED, state)
        seen = h.get(job_id)
        assert (seen.run_at, seen.scheduled_at, seen.updated_at) == (now, now, now)
        assert (seen.attempt, seen.max_attempts) == (0, before.policy.max_attempts)
        assert (seen.expires_at, seen.created_at) == (before.expires_at, before.created_at)
        claimed = h.take()
        assert (claimed.id, claimed.attempt) == (job_id, 1)
        assert claimed.lease.version > before.lease_version
        h.succeed(claimed)
        assert h.state(job_id) is State.COMPLETED

    @pytest.mark.parametrize("state", [State.DELAYED, State.RETRYING], ids=str)
    def test_a_live_job_may_be_given_another_delay(self, h: Harness, state: State) -> None:
        """S3-8, C45: sooner or later than before, to the instant; its attempts as they were."""
        job_id = h.job_in(state)
        before = h.get(job_id)
        now = h.advance(0.25)
        for delay in (900.0, 30.0):
            reply = h.retry(job_id, delay=delay, reset_attempts=False)
            assert reply == Moved(job_id, "mail", state, state)
            assert h.get(job_id) == replace(before, run_at=now + timedelta(seconds=delay))
        h.advance(30.0 - 0.000001)
        assert h.claim().jobs == []
        h.advance(0.000001)
        assert (h.take().id, h.get(job_id).attempt) == (job_id, before.attempt + 1)

    def test_a_lost_worker_s_job_can_be_had_at_once(self, h: Harness) -> None:
        """S3-28, C45: reclaimed, retried without a delay, and claimed again."""
        job_id = h.submit()
        lost = h.take()
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        assert h.state(job_id) is State.RETRYING
        h.retry(job_id, reset_attempts=False)
        again = h.take()
        assert (again.id, again.attempt) == (job_id, lost.attempt + 1)

    def test_a_live_job_that_is_retried_keeps_its_key_and_may_get_a_priority(
        self, h: Harness
    ) -> None:
        """C36, C45, S3-17."""
        job_id = h.submit(key=ACTIVE, delay=60.0, priority=Priority.LOW)
        other = h.submit()
        h.retry(job_id, priority=Priority.CRITICAL)
        assert h.enqueue(job(key=ACTIVE)) == [
            Duplicate(job_id, "mail", "k", State.SCHEDULED, False)
        ]
        assert ids(h.claim().jobs) == [job_id, other]

    def test_a_live_job_is_held_up_by_its_concurrency_key_all_the_same(self, h: Harness) -> None:
        """C45: it waits for its slot, and gets the next that is free."""
        alone = Policy(max_running_per_key=1)
        first = h.submit(concurrency_key="c", policy=alone)
        later = h.submit(concurrency_key="c", policy=alone, delay=60.0)
        assert h.retry(later) == Moved(later, "mail", State.PENDING, State.DELAYED)
        assert h.get(later).is_held
        h.cancel(first)
        assert h.take().id == later

    @pytest.mark.parametrize("state", [State.DELAYED, State.RETRYING, State.FAILED], ids=str)
    def test_a_retry_past_the_lifetime_is_refused(self, h: Harness, state: State) -> None:
        """C48: of a live job, the lifetime that it has; nothing changes."""
        job_id = h.job_in(state, policy=Policy(max_attempts=2, lifetime=100.0))
        h.advance(0.25)
        ends = h.get(job_id).expires_at
        if state is State.FAILED:
            ends = h.now + timedelta(seconds=100)
        before = h.snapshot()
        left = (ends - h.now).total_seconds()
        assert h.retry(job_id, delay=left) == TooLate(job_id, ends)
        assert h.snapshot() == before
        assert isinstance(h.retry(job_id, delay=left - 0.000001), Moved)

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
        assert h.run(h.store.control.retry(requests)) == [
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
        assert (letter.job_id, letter.completed_at) == (job_id, h.now)

    def test_each_job_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """C36: in order; the same twice, unknown and malformed ids among them."""
        one = h.job_in(State.CANCELLED)
        two = h.job_in(State.DEAD_LETTER, policy=ONE_ATTEMPT)
        requests = [RetryRequest(each) for each in (one, NOBODY, "no id", one, two)]
        assert h.run(h.store.control.retry(requests)) == [
            Moved(one, "mail", State.SCHEDULED, State.CANCELLED),
            NotFound(NOBODY),
            NotFound("no id"),
            Conflict(one, State.SCHEDULED),
            Moved(two, "mail", State.SCHEDULED, State.DEAD_LETTER),
        ]
        assert h.run(h.store.control.retry([])) == []
