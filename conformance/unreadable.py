"""Payloads that this version of the code cannot read."""

from __future__ import annotations

from datetime import timedelta

from conformance.harness import INSTANT, Harness
from fencepost.core.bounds import UNREADABLE_MAX
from fencepost.core.job.job import AttemptOutcome, Category, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Unreadable, decide
from fencepost.core.job.policy import Policy
from fencepost.core.job.why import explain
from fencepost.core.values.signature import with_past
from fencepost.store.interface.queue import Settled

__all__ = ["TestUnreadable"]

SECONDS = timedelta(seconds=1)
UNREAD = Failure(Category.SYSTEM, "payload does not fit mail()", code="unreadable_payload")


class TestUnreadable:
    """C47: a payload that this version of the code cannot read is left to others for a while."""

    def test_the_job_is_given_back_uncounted_and_says_why(self, h: Harness) -> None:
        job_id = h.submit(policy=Policy(max_attempts=1))
        for returns in range(3):
            claimed = h.take()
            assert claimed.attempt == 1, "however often"
            now = h.now
            decision = decide(claimed, Unreadable(UNREAD, returns, 60.0), h.clock.rng)
            reply = h.settle(claimed, Unreadable(UNREAD, returns, 60.0))
            assert reply == Settled(job_id, "mail", State.RETRYING)
            seen = h.get(job_id)
            assert (seen.state, seen.attempt, seen.failure) == (State.RETRYING, 0, UNREAD)
            assert seen.run_at == now + decision.delay * SECONDS
            h.clock.advance(decision.delay * SECONDS - INSTANT)
            assert h.claim().jobs == []
            h.clock.advance(INSTANT)
        kept = [(each.number, each.outcome, each.failure) for each in h.attempts(job_id)]
        assert kept == [(1, AttemptOutcome.UNREADABLE, UNREAD)] * 3

    def test_it_counts_from_the_first_time_however_often_the_store_is_opened(
        self, h: Harness
    ) -> None:
        """The attempts that are kept say so; a restart does not begin it again."""
        job_id = h.submit()
        begun = h.now
        for _ in range(4):
            h.settle(h.take(), Unreadable(UNREAD))
            h.advance(300)
            h.release(h.take())
            if h.is_durable:
                h.reopen()
        claimed = h.take()
        outcome = with_past(Unreadable(UNREAD), h.attempts(job_id))
        assert (outcome.returns, outcome.waited) == (4, (h.now - begun).total_seconds())
        assert claimed.attempt == 1

    def test_it_has_failed_when_nobody_could_read_it_for_too_long(self, h: Harness) -> None:
        job_id = h.submit()
        h.settle(h.take(), Unreadable(UNREAD))
        h.advance(UNREADABLE_MAX)
        claimed = h.take()
        outcome = with_past(Unreadable(UNREAD), h.attempts(job_id))
        assert h.settle(claimed, outcome) == Settled(job_id, "mail", State.FAILED)
        seen = h.get(job_id)
        assert seen.failure is not None
        assert (seen.failure.category, seen.failure.code) == (
            Category.PERMANENT,
            "unreadable_payload",
        )
        assert "no worker could read it" in seen.failure.message
        assert [letter.job_id for letter in h.letters()] == [job_id]

    def test_whoever_runs_it_again_by_hand_begins_anew(self, h: Harness) -> None:
        job_id = h.submit()
        h.settle(h.take(), Unreadable(UNREAD))
        h.advance(UNREADABLE_MAX)
        h.settle(h.take(), with_past(Unreadable(UNREAD), h.attempts(job_id)))
        h.retry(job_id)
        h.take()
        assert with_past(Unreadable(UNREAD), h.attempts(job_id)) == Unreadable(UNREAD)

    def test_a_worker_that_can_read_it_completes_it(self, h: Harness) -> None:
        job_id = h.submit()
        h.settle(h.take(), Unreadable(UNREAD))
        h.advance(300)
        h.succeed(h.take())
        seen = h.get(job_id)
        assert (seen.state, seen.attempt, seen.failure) == (State.COMPLETED, 1, None)

    def test_why_says_it(self, h: Harness) -> None:
        job_id = h.submit()
        h.settle(h.take(), Unreadable(UNREAD))
        found = h.run(h.store.reader.situation(job_id))
        assert found is not None
        reason = explain(found)[0]
        assert reason.code == "unreadable_payload"
        assert "payload does not fit mail()" in reason.text
