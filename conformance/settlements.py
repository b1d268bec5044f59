"""Settling: how each outcome leaves the job."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from conformance.harness import DONE, NOBODY, TROUBLE, TTL, Harness, ids
from fencepost.core.job.job import Category, ClaimedJob, Failure
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    decide,
)
from fencepost.core.job.policy import Policy, Retry
from fencepost.store.interface.queue import AlreadySettled, LeaseLost, Settled

__all__ = ["TestFailing", "TestRepeating", "TestSettling"]

SECONDS = timedelta(seconds=1)

OUTCOMES: dict[Event, Outcome] = {
    Event.SUCCEED: Succeeded(DONE),
    Event.REJECT: Failed(Failure(Category.PERMANENT, "no")),
    Event.RETRY: Failed(TROUBLE),
    Event.RELEASE: Released(),
    Event.SNOOZE: Snoozed(5.0),
}


def settlement(h: Harness, claimed: ClaimedJob, outcome: Outcome) -> Settlement:
    return Settlement(claimed.id, claimed.lease.token, decide(claimed, outcome, h.clock.rng))


class TestSettling:
    def test_a_success_completes_the_job(self, h: Harness) -> None:
        """S0-27, S0-30, S0-41, S1-16, S1-24, S1-98, S1-103, S2-33, S3-6, S3-7."""
        job_id = h.submit()
        claimed = h.take()
        now = h.advance(5.0)
        assert h.succeed(claimed) == Settled(job_id, "mail", State.COMPLETED)
        seen = h.get(job_id)
        assert (seen.state, seen.result_body, seen.failure) == (State.COMPLETED, DONE, None)
        assert (seen.completed_at, seen.updated_at) == (now, now)
        assert (seen.lease, seen.lease_version, seen.attempt) == (None, claimed.lease.version, 1)

    def test_a_completed_job_is_never_given_out_again(self, h: Harness) -> None:
        """S0-12, S0-41, S3-7, C37: not by claim, recovery, promotion, lifetime, or time."""
        job_id = h.job_in(State.COMPLETED)
        before = h.get(job_id)
        for _ in range(3):
            h.advance("10d")
            assert h.claim().jobs == []
            assert h.run(h.store.upkeep.recover(10)) == []
            assert h.run(h.store.upkeep.promote(10)) == []
            assert h.run(h.store.upkeep.expire(10)) == []
        assert h.get(job_id) == before

    def test_a_success_after_a_failure_forgets_the_failure(self, h: Harness) -> None:
        """S1-16: it stays with the attempt."""
        job_id = h.job_in(State.RETRYING)
        assert h.get(job_id).failure == TROUBLE
        h.advance(1.0)
        h.succeed(h.take())
        assert (h.get(job_id).failure, h.get(job_id).attempt) == (None, 2)
        assert h.attempts(job_id)[0].failure == TROUBLE

    def test_a_released_job_is_as_if_it_had_never_been_claimed(self, h: Harness) -> None:
        """C23: not counted, same place, but the version has risen."""
        job_id = h.submit()
        submitted = h.now
        h.advance(1.0)
        claimed = h.take()
        now = h.advance(1.0)
        assert h.release(claimed) == Settled(job_id, "mail", State.SCHEDULED)
        seen = h.get(job_id)
        assert (seen.attempt, seen.lease_version, seen.lease) == (0, claimed.lease.version, None)
        assert (seen.run_at, seen.scheduled_at, seen.updated_at) == (submitted, now, now)
        assert (seen.failure, seen.completed_at) == (None, None)
        again = h.take()
        assert (again.id, again.attempt) == (job_id, 1)
        assert again.lease.version > claimed.lease.version

    def test_a_job_can_be_released_any_number_of_times(self, h: Harness) -> None:
        """C23, S0-22."""
        job_id = h.submit(policy=Policy(max_attempts=1))
        versions = []
        for _ in range(10):
            claimed = h.take()
            versions.append(claimed.lease.version)
            h.release(claimed)
        claimed = h.take()
        assert claimed.attempt == 1
        assert claimed.lease.version > versions[-1]
        assert versions == sorted(set(versions))
        h.fail(claimed)
        assert h.state(job_id) is State.DEAD_LETTER

    def test_a_snoozed_job_comes_back_later_uncounted(self, h: Harness) -> None:
        """S3-8: retried later without using up an attempt."""
        job_id = h.submit()
        claimed = h.take()
        now = h.advance(2.0)
        assert h.snooze(claimed, 60.0) == Settled(job_id, "mail", State.DELAYED)
        seen = h.get(job_id)
        assert (seen.attempt, seen.lease_version, seen.lease) == (0, claimed.lease.version, None)
        assert (seen.run_at, seen.updated_at) == (now + 60 * SECONDS, now)
        h.advance(60.0 - 0.000001)
        assert h.claim().jobs == []
        h.advance(0.000001)
        assert h.take().attempt == 1

    def test_nothing_is_put_off_beyond_the_lifetime(self, h: Harness) -> None:
        """S1-44, C34: a snooze or a retry falls due at the end of the lifetime at the latest."""
        end = h.now + 100 * SECONDS
        snoozed, failed = h.submit_many(2, policy=Policy(lifetime=100.0))
        one, two = h.claim().jobs
        h.snooze(one, 3600.0)
        h.fail(two, retry_after=3600.0)
        assert h.get(snoozed).run_at == end
        assert h.get(failed).run_at == end

    def test_each_settlement_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """S0-34, S0-40, S0-42: in order; the same job twice; unknown, malformed and lost ones."""
        h.submit_many(5)
        a, b, c, d, lost = h.claim().jobs
        h.cancel(lost.id)
        replies = h.run(
            h.store.queue.settle(
                [
                    settlement(h, a, Succeeded(DONE)),
                    settlement(h, lost, Succeeded(DONE)),
                    settlement(h, b, Failed(TROUBLE)),
                    Settlement(NOBODY, "t", settlement(h, a, Released()).decision),
                    Settlement("no id", "t", settlement(h, a, Released()).decision),
                    settlement(h, a, Failed(TROUBLE)),
                    settlement(h, c, Snoozed(9.0)),
                    settlement(h, d, Released()),
                ]
            )
        )
        assert replies == [
            Settled(a.id, "mail", State.COMPLETED),
            LeaseLost(lost.id, State.CANCELLED),
            Settled(b.id, "mail", State.RETRYING),
            LeaseLost(NOBODY, None),
            LeaseLost("no id", None),
            AlreadySettled(a.id, State.COMPLETED),
            Settled(c.id, "mail", State.DELAYED),
            Settled(d.id, "mail", State.SCHEDULED),
        ]
        assert h.get(a.id).result_body == DONE
        assert h.run(h.store.queue.settle([])) == []


class TestFailing:
    def test_a_failed_job_is_tried_again_after_its_backoff(self, h: Harness) -> None:
        """S0-11, S0-31, S0-43, S0-66, S0-67, S0-68, S0-69, S1-18, S1-26, S1-28, S1-49, S1-51,
        S1-54, S1-81, S2-34, S3-8: one second, then two.
        """
        job_id = h.submit()
        for attempt, delay in ((1, 1.0), (2, 2.0)):
            claimed = h.take()
            now = h.advance(5.0)
            assert h.fail(claimed) == Settled(job_id, "mail", State.RETRYING)
            seen = h.get(job_id)
            assert (seen.state, seen.attempt, seen.failure) == (State.RETRYING, attempt, TROUBLE)
            assert (seen.run_at, seen.updated_at) == (now + delay * SECONDS, now)
            assert (seen.lease, seen.completed_at, seen.result_body) == (None, None, None)
            h.advance(delay - 0.000001)
            assert h.claim().jobs == []
            h.advance(0.000001)
        assert h.take().attempt == 3

    def test_the_last_attempt_that_fails_is_the_end(self, h: Harness) -> None:
        """S0-22, S0-26, S0-32, S0-44, S0-60, S1-19, S1-27, S1-47, S2-34, C7."""
        job_id = h.submit()
        for delay in (1.0, 2.0):
            h.fail(h.take())
            h.advance(delay)
        claimed = h.take()
        now = h.advance(5.0)
        assert h.fail(claimed) == Settled(job_id, "mail", State.DEAD_LETTER)
        seen = h.get(job_id)
        assert (seen.attempt, seen.failure) == (3, TROUBLE)
        assert (seen.completed_at, seen.updated_at, seen.lease) == (now, now, None)
        h.advance("30d")
        assert h.claim().jobs == []

    @pytest.mark.parametrize("how", ["it fails", "its worker dies"])
    def test_a_retrying_job_is_a_dead_letter_once_its_retries_are_used_up(
        self, h: Harness, how: str
    ) -> None:
        """S1-29, C8: it waits for each retry that it has, and then for no more."""
        job_id = h.submit(policy=Policy(max_attempts=3))
        states: list[State] = []
        while len(states) < 5 and (jobs := h.claim().jobs):
            if how == "it fails":
                h.fail(jobs[0])
            else:
                h.advance(TTL)
                h.run(h.store.upkeep.recover(10))
            states.append(h.state(job_id))
            h.advance("1h")
        assert states == [State.RETRYING, State.RETRYING, State.DEAD_LETTER]
        assert [attempt.number for attempt in h.attempts(job_id)] == [1, 2, 3]
        assert [letter.job_id for letter in h.letters()] == [job_id]

    @pytest.mark.parametrize("max_attempts", [1, 2, 4])
    def test_a_job_starts_as_often_as_it_may(self, h: Harness, max_attempts: int) -> None:
        """S0-22, S0-58, S0-59, S1-47, C1: MaxRetries = max_attempts - 1."""
        retry = Retry(max_retries=max_attempts - 1)
        policy = Policy(max_attempts=retry.max_attempts, backoff=retry.backoff)
        job_id = h.submit(policy=policy)
        starts = 0
        while h.state(job_id) is not State.DEAD_LETTER and starts < 10:
            h.fail(h.take())
            starts += 1
            h.advance(3600.0)
        assert starts == max_attempts
        assert h.claim().jobs == []

    def test_a_permanent_failure_is_not_tried_again(self, h: Harness) -> None:
        """S1-17, S1-25, S1-80, S1-82, S1-89, C7: with its code, on the first attempt."""
        job_id = h.submit()
        claimed = h.take()
        now = h.advance(1.0)
        assert h.reject(claimed) == Settled(job_id, "mail", State.FAILED)
        seen = h.get(job_id)
        assert seen.failure == Failure(Category.PERMANENT, "no such user", code="404")
        assert (seen.attempt, seen.completed_at) == (1, now)
        h.advance("30d")
        assert h.claim().jobs == []

    @pytest.mark.parametrize(
        ("category", "policy", "state"),
        [
            (Category.TEMPORARY, Policy(), State.RETRYING),
            (Category.PERMANENT, Policy(), State.FAILED),
            (Category.TIMEOUT, Policy(), State.RETRYING),
            (Category.TIMEOUT, Policy(on_timeout=False), State.FAILED),
            (Category.CANCELLED, Policy(), State.FAILED),
            (Category.SYSTEM, Policy(), State.RETRYING),
            (Category.SYSTEM, Policy(on_system=False), State.FAILED),
        ],
    )
    def test_the_category_decides(
        self, h: Harness, category: Category, policy: Policy, state: State
    ) -> None:
        """S1-42, S1-57, S1-80..S1-85, C19: and it is kept with job and attempt."""
        failure = Failure(category, "x")
        job_id = h.submit(policy=policy)
        h.fail(h.take(), failure)
        assert (h.state(job_id), h.get(job_id).failure) == (state, failure)
        assert h.attempts(job_id)[0].failure == failure

    def test_a_failure_may_ask_for_a_longer_wait(self, h: Harness) -> None:
        """S1-88, C34: the longer of the two, beyond the policy's longest delay."""
        longer, shorter = h.submit_many(2)
        one, two = h.claim().jobs
        h.fail(one, retry_after=7200.0)
        h.fail(two, retry_after=0.25)
        assert h.get(longer).run_at == h.now + 7200 * SECONDS
        assert h.get(shorter).run_at == h.now + 1 * SECONDS

    @pytest.mark.parametrize("seed", range(6))
    def test_attempts_never_exceed_their_bound(self, h: Harness, seed: int) -> None:
        """S0-22, S4-4, S4-16, C8: over any mix of failures, lost leases, releases, snoozes."""
        random = Random(seed)
        bound = random.randint(1, 5)
        job_id = h.submit(policy=Policy(max_attempts=bound))
        counted = 0
        for _ in range(60):
            if h.state(job_id) is State.DEAD_LETTER:
                break
            claimed = h.take(f"w{random.randint(1, 3)}")
            assert claimed.attempt == counted + 1 <= bound
            match random.choice(["fail", "lose", "release", "snooze"]):
                case "fail":
                    h.fail(claimed)
                    counted += 1
                case "lose":
                    h.advance(TTL)
                    h.run(h.store.upkeep.recover(10))
                    counted += 1
                case "release":
                    h.release(claimed)
                case "snooze":
                    h.snooze(claimed, 1.0)
            assert h.get(job_id).attempt == counted
            h.advance(60.0)
        assert (h.state(job_id), counted) == (State.DEAD_LETTER, bound)


class TestRepeating:
    @pytest.mark.parametrize("again", list(OUTCOMES), ids=lambda each: each.name)
    @pytest.mark.parametrize("event", list(OUTCOMES), ids=lambda each: each.name)
    def test_a_repeated_settlement_is_told_that_it_was_recorded(
        self, h: Harness, event: Event, again: Event
    ) -> None:
        """S0-34, C38: and changes nothing, also when it says something else, early or late."""
        job_id = h.submit()
        claimed = h.take()
        h.settle(claimed, OUTCOMES[event])
        before = h.snapshot()
        reply = h.settle(claimed, OUTCOMES[again])
        assert reply == AlreadySettled(job_id, h.state(job_id))
        h.advance("1h")
        assert h.settle(claimed, OUTCOMES[again]) == reply
        assert h.snapshot() == before

    def test_a_repeat_is_told_the_present_state(self, h: Harness) -> None:
        """S0-52, C38: the job may have moved on, and is not disturbed."""
        job_id = h.submit()
        first = h.take()
        h.fail(first)
        h.advance(1.0)
        second = h.take("w2")
        assert h.fail(first) == AlreadySettled(job_id, State.RUNNING)
        assert h.succeed(second) == Settled(job_id, "mail", State.COMPLETED)
        assert ids(h.find(states=(State.COMPLETED,))) == [job_id]

    def test_a_job_cancelled_after_it_was_settled_is_still_settled(self, h: Harness) -> None:
        """C38, C20."""
        job_id = h.submit()
        claimed = h.take()
        h.fail(claimed)
        h.cancel(job_id)
        assert h.fail(claimed) == AlreadySettled(job_id, State.CANCELLED)

    @pytest.mark.parametrize("event", list(OUTCOMES), ids=lambda each: each.name)
    def test_a_batch_is_judged_in_its_order(self, h: Harness, event: Event) -> None:
        """C38: an older lease is the last that was settled, until a newer one of the batch is."""
        job_id = h.submit()
        oldest = h.take()
        h.release(oldest)
        older = h.take()
        h.release(older)
        claimed = h.take()
        order = (oldest, older, claimed, older, claimed, oldest)
        batch = [settlement(h, each, OUTCOMES[event]) for each in order]
        settled = batch[2].decision.state
        assert h.run(h.store.queue.settle(batch)) == [
            LeaseLost(job_id, State.RUNNING),
            AlreadySettled(job_id, State.RUNNING),
            Settled(job_id, "mail", settled),
            LeaseLost(job_id, settled),
            AlreadySettled(job_id, settled),
            LeaseLost(job_id, settled),
        ]
        assert h.run(h.store.queue.settle([batch[1], batch[2], batch[2]])) == [
            LeaseLost(job_id, settled),
            AlreadySettled(job_id, settled),
            AlreadySettled(job_id, settled),
        ]

    def test_the_very_same_settlement_twice_in_a_batch_is_recorded_once(self, h: Harness) -> None:
        """S0-34, C38."""
        job_id = h.submit()
        given = settlement(h, h.take(), Succeeded(DONE))
        assert h.run(h.store.queue.settle([given, given])) == [
            Settled(job_id, "mail", State.COMPLETED),
            AlreadySettled(job_id, State.COMPLETED),
        ]
