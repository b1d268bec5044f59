"""Cancelling: from every live state, at once, for good."""

from __future__ import annotations

import pytest

from conformance.graphs import after
from conformance.harness import LIVE, NOBODY, TERMINAL, TTL, Harness, ids
from fencepost.core.job.job import AttemptOutcome, Category, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.store.interface.control import Conflict, NotFound
from fencepost.store.interface.queue import LeaseLost, Moved

__all__ = ["TestCancelling"]

ONE = Policy(max_running_per_key=1)
CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")


class TestCancelling:
    @pytest.mark.parametrize("state", LIVE, ids=str)
    def test_a_live_job_is_cancelled_at_once(self, h: Harness, state: State) -> None:
        """S3-6, S3-9, S3-10, S1-84, S1-98, S1-103, C20, C21: and never given out again."""
        job_id = h.job_in(state)
        now = h.advance(0.5)
        assert h.cancel(job_id) == Moved(job_id, "mail", State.CANCELLED, state)
        seen = h.get(job_id)
        assert (seen.state, seen.failure, seen.lease) == (State.CANCELLED, CANCELLED, None)
        assert (seen.completed_at, seen.updated_at) == (now, now)
        h.advance("2d")
        assert h.claim().jobs == []
        assert h.run(h.store.upkeep.recover(10)) == h.run(h.store.upkeep.promote(10)) == []
        assert h.state(job_id) is State.CANCELLED

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_what_has_ended_cannot_be_cancelled(self, h: Harness, state: State) -> None:
        """S3-11, S0-12, S1-30: refused, and nothing changes."""
        job_id = h.job_in(state)
        before = h.snapshot()
        h.advance(1.0)
        assert h.cancel(job_id) == Conflict(job_id, state)
        assert h.snapshot() == before

    def test_the_worker_of_a_cancelled_job_learns_it(self, h: Harness) -> None:
        """C20, S0-48, S2-9: by its next heartbeat, save or settlement, none of which counts."""
        job_id = h.submit()
        claimed = h.take()
        h.cancel(job_id)
        lost = LeaseLost(job_id, State.CANCELLED)
        assert h.heartbeat(claimed) == h.save(claimed) == h.succeed(claimed) == lost
        assert (h.state(job_id), h.get(job_id).result_body) == (State.CANCELLED, None)
        assert h.attempts(job_id)[0].outcome is AttemptOutcome.CANCELLED

    def test_a_job_whose_worker_was_lost_can_be_cancelled(self, h: Harness) -> None:
        """S3-28, S3-10: before or after recovery it is terminal and never delivered later."""
        first, second = h.submit_many(2)
        h.claim()
        h.advance(TTL)
        assert h.cancel(first) == Moved(first, "mail", State.CANCELLED, State.RUNNING)
        h.run(h.store.upkeep.recover(10))
        assert h.cancel(second) == Moved(second, "mail", State.CANCELLED, State.RETRYING)
        h.advance("1d")
        claim = h.claim()
        assert (claim.jobs, claim.recovered, claim.expired, claim.promoted) == ([], [], [], 0)

    def test_a_cancelled_job_is_no_dead_letter(self, h: Harness) -> None:
        """S1-84, C7, C21."""
        h.job_in(State.CANCELLED)
        assert h.letters() == []

    def test_each_job_of_a_batch_is_answered_for_itself(self, h: Harness) -> None:
        """S3-9, S3-11: in order; the same twice, unknown and malformed ids among them."""
        one, two = h.submit_many(2)
        assert h.run(h.store.control.cancel([one, NOBODY, "no id", one, two])) == [
            Moved(one, "mail", State.CANCELLED, State.SCHEDULED),
            NotFound(NOBODY),
            NotFound("no id"),
            Conflict(one, State.CANCELLED),
            Moved(two, "mail", State.CANCELLED, State.SCHEDULED),
        ]
        assert h.run(h.store.control.cancel([])) == []

    def test_jobs_that_others_wait_for_are_cancelled_beside_those_that_stand_alone(
        self, h: Harness
    ) -> None:
        """C20, S1-71: one call, in which a job has dependents, one a key, one runs, one waits."""
        running = h.submit()
        h.take()
        parent, alone, later = h.submit(), h.submit(), h.submit(delay=60.0)
        keyed, blocked = (h.submit("report", concurrency_key="k", policy=ONE) for _ in range(2))
        child = h.submit("leaf", after=after(parent))
        asked = [alone, keyed, parent, later, running]
        replies = h.run(h.store.control.cancel(asked))
        moves = [reply for reply in replies if isinstance(reply, Moved)]
        assert [move.job_id for move in moves] == asked
        followed = {move.job_id: move.state for each in moves for move in each.followed}
        assert followed == {child: State.CANCELLED, blocked: State.SCHEDULED}
        assert {h.state(job_id) for job_id in (*asked, child)} == {State.CANCELLED}
        assert ids(h.claim().jobs) == [blocked]
