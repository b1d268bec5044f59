"""Promotion of due jobs, and the end of lifetimes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import (
    INSTANT,
    LIFETIME_EXCEEDED,
    LIVE,
    TERMINAL,
    Harness,
)
from fencepost.core.bounds import EXPIRE_BATCH
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Backoff, Policy
from fencepost.store.interface.queue import LeaseLost, Moved
from fencepost.store.interface.settings import Scope

__all__ = ["TestExpiring", "TestPromoting"]

SHORT = Policy(lifetime=600.0)


class TestPromoting:
    @pytest.mark.parametrize("limit", [0, -1])
    def test_promoting_or_expiring_none_moves_none(self, h: Harness, limit: int) -> None:
        """S1-22, S1-44: every chore is bounded by its limit, whatever it is."""
        h.submit(delay=5.0, policy=SHORT)
        before = h.snapshot()
        h.advance(600.0)
        assert h.run(h.store.upkeep.promote(limit)) == []
        assert h.run(h.store.upkeep.expire(limit)) == []
        assert h.snapshot() == before

    @pytest.mark.parametrize("state", [State.DELAYED, State.RETRYING], ids=str)
    def test_a_due_job_becomes_claimable(self, h: Harness, state: State) -> None:
        """S0-11, S1-22, S1-28, S1-98, S1-101, S0-69: at its time, not the instant before."""
        job_id = h.job_in(state)
        due = h.get(job_id).run_at
        h.advance_to(due - INSTANT)
        assert h.run(h.store.upkeep.promote(10)) == []
        h.advance_to(due)
        assert h.run(h.store.upkeep.promote(10)) == [Moved(job_id, "mail", State.SCHEDULED, state)]
        seen = h.get(job_id)
        assert (seen.state, seen.run_at) == (State.SCHEDULED, due)
        assert (seen.scheduled_at, seen.updated_at) == (due, due)

    def test_promotion_late_keeps_the_due_time(self, h: Harness) -> None:
        """C30: run_at is the due time, scheduled_at the time of the transition."""
        job_id = h.submit(delay=10.0)
        due = h.get(job_id).run_at
        now = h.advance(15.0)
        h.run(h.store.upkeep.promote(10))
        assert (h.get(job_id).run_at, h.get(job_id).scheduled_at) == (due, now)

    def test_promotion_is_bounded_and_takes_the_earliest_first(self, h: Harness) -> None:
        """S1-22, S2-13: and doing it again changes nothing."""
        by_delay = {delay: h.submit(delay=delay) for delay in (5.0, 3.0, 4.0, 1.0, 2.0)}
        h.advance(10.0)
        batches = [[moved.job_id for moved in h.run(h.store.upkeep.promote(2))] for _ in range(4)]
        order = [by_delay[delay] for delay in sorted(by_delay)]
        assert batches == [order[:2], order[2:4], order[4:], []]

    def test_promotion_consumes_no_attempt(self, h: Harness) -> None:
        """S0-43, S1-56: attempts are counted at the start."""
        job_id = h.job_in(State.RETRYING)
        version = h.get(job_id).lease_version
        h.advance(1.0)
        h.run(h.store.upkeep.promote(10))
        assert (h.get(job_id).attempt, h.get(job_id).lease_version) == (1, version)


class TestExpiring:
    @pytest.mark.parametrize("by", ["expire", "claim"])
    @pytest.mark.parametrize("state", LIVE, ids=str)
    def test_a_job_past_its_lifetime_is_a_dead_letter(
        self, h: Harness, state: State, by: str
    ) -> None:
        """S1-29, S1-41, S1-44, C22: from every live state, at the end and not before."""
        job_id = h.job_in(state, policy=SHORT)
        end = h.get(job_id).created_at + timedelta(seconds=600)
        assert h.get(job_id).expires_at == end
        h.advance_to(end - INSTANT)
        assert h.run(h.store.upkeep.expire(10)) == []
        h.advance_to(end)
        if by == "expire":
            assert h.run(h.store.upkeep.expire(10)) == [
                Moved(job_id, "mail", State.DEAD_LETTER, state)
            ]
        else:  # a claim takes the lost lease back first
            was = State.RETRYING if state is State.RUNNING else state
            assert h.claim().expired == [Moved(job_id, "mail", State.DEAD_LETTER, was)]
        seen = h.get(job_id)
        assert (seen.state, seen.failure) == (State.DEAD_LETTER, LIFETIME_EXCEEDED)
        assert (seen.completed_at, seen.updated_at, seen.lease) == (end, end, None)
        assert [letter.failure for letter in h.letters()] == [LIFETIME_EXCEEDED]
        assert h.claim().jobs == []

    def test_a_running_job_under_a_valid_lease_ends_too(self, h: Harness) -> None:
        """S1-44, C22: and its worker's late success is refused."""
        job_id = h.submit(policy=SHORT)
        claimed = h.take(lease_ttl=3600.0)
        h.advance(600.0)
        assert h.claim().expired == [Moved(job_id, "mail", State.DEAD_LETTER, State.RUNNING)]
        assert h.succeed(claimed) == LeaseLost(job_id, State.DEAD_LETTER)
        assert h.heartbeat(claimed) == LeaseLost(job_id, State.DEAD_LETTER)
        [attempt] = h.attempts(job_id)
        assert (attempt.outcome, attempt.failure) == (AttemptOutcome.FAILED, LIFETIME_EXCEEDED)
        assert attempt.ended_at == h.now

    def test_a_job_that_is_due_when_its_lifetime_ends_does_not_start(self, h: Harness) -> None:
        """S1-44: expiry comes before promotion and claim."""
        job_id = h.submit(policy=SHORT, delay=599.999999)
        h.advance(600.0)
        claim = h.claim()
        assert (claim.jobs, [moved.job_id for moved in claim.expired]) == ([], [job_id])

    @pytest.mark.parametrize("by", ["expire", "claim"])
    def test_a_retry_that_would_come_too_late_never_comes(self, h: Harness, by: str) -> None:
        """S1-29, S1-44: RETRYING until the lifetime ends, then a dead letter with attempts left."""
        backoff = Backoff(initial_delay=900.0, jitter=0.0)
        policy = Policy(max_attempts=9, lifetime=600.0, backoff=backoff)
        job_id = h.submit(policy=policy)
        h.fail(h.take())
        h.advance(600.0 - 0.000001)
        assert (h.claim().jobs, h.state(job_id)) == ([], State.RETRYING)
        h.advance(0.000001)
        moved = h.run(h.store.upkeep.expire(10)) if by == "expire" else h.claim().expired
        assert moved == [Moved(job_id, "mail", State.DEAD_LETTER, State.RETRYING)]
        h.advance(900.0)
        assert h.claim().jobs == []
        seen = h.get(job_id)
        assert (seen.state, seen.attempt) == (State.DEAD_LETTER, 1)
        assert seen.failure == LIFETIME_EXCEEDED

    @pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.TYPE], ids=str)
    def test_a_pause_does_not_stop_the_lifetime(self, h: Harness, scope: Scope) -> None:
        """S1-44, C39."""
        job_id = h.submit(policy=SHORT)
        h.run(h.store.settings.pause(scope, "default" if scope is Scope.QUEUE else "mail"))
        h.advance(600.0)
        assert [moved.job_id for moved in h.run(h.store.upkeep.expire(10))] == [job_id]

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_what_has_ended_does_not_end_again(self, h: Harness, state: State) -> None:
        """C22, S0-12."""
        h.job_in(state)
        before = h.snapshot()
        h.advance("30d")
        assert h.run(h.store.upkeep.expire(10)) == []
        assert h.snapshot() == before

    def test_expiry_is_bounded_and_takes_the_earliest_first(self, h: Harness) -> None:
        """S1-44, S2-13: and doing it again changes nothing."""
        by_end = {end: h.submit(policy=Policy(lifetime=end)) for end in (50.0, 30.0, 40.0, 10.0)}
        h.advance(60.0)
        batches = [[moved.job_id for moved in h.run(h.store.upkeep.expire(3))] for _ in range(3)]
        order = [by_end[end] for end in sorted(by_end)]
        assert batches == [order[:3], order[3:], []]

    def test_a_claim_expires_a_bounded_batch(self, h: Harness) -> None:
        """S1-44: the rest by the next claims, also by those without a free slot."""
        h.submit_many(EXPIRE_BATCH + 5, policy=SHORT)
        h.advance(600.0)
        assert len(h.claim(0).expired) == EXPIRE_BATCH
        assert len(h.claim(0).expired) == 5
        assert h.claim(0).expired == []

    def test_a_job_retried_by_hand_lives_as_long_again(self, h: Harness) -> None:
        """S1-44, C36."""
        job_id = h.submit(policy=SHORT)
        h.advance(600.0)
        h.run(h.store.upkeep.expire(10))
        h.retry(job_id)
        assert h.get(job_id).expires_at == h.now + timedelta(seconds=600)
        h.advance(599.0)
        assert h.run(h.store.upkeep.expire(10)) == []
        assert h.take().id == job_id
