"""The line inside a queue: priority, then the moment of becoming claimable, then submission."""

from __future__ import annotations

from datetime import timedelta

from conformance.harness import Harness, ids, job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.store.interface.control import Edit

__all__ = ["TestOrdering"]


class TestOrdering:
    def test_equal_jobs_go_in_the_order_of_submission(self, h: Harness) -> None:
        """S0-7, S1-34, S2-26: also when they were submitted in the same microsecond."""
        expected = h.submit_many(30)
        expected += [h.submit() for _ in range(20)]
        h.advance(0.000001)
        expected += h.submit_many(10)
        taken = [h.take().id for _ in range(25)] + ids(h.claim(35).jobs)
        assert taken == expected

    def test_the_lower_number_goes_first(self, h: Harness) -> None:
        """S0-9, S0-17, S1-33, S1-34, S2-26, C12: whatever the order of submission."""
        replies = h.enqueue(*(job(priority=Priority(n)) for n in (4, 2, 0, 3, 1, 2, 0, 4)))
        job_ids = [reply.job_id for reply in replies]
        expected = [job_ids[n] for n in (2, 6, 4, 1, 5, 3, 0, 7)]
        assert ids(h.claim(8).jobs) == expected

    def test_a_low_priority_waits_while_there_is_higher_work(self, h: Harness) -> None:
        """S1-35: and runs when there is none."""
        low = h.submit(priority=Priority.BULK)
        for _ in range(5):
            h.advance(60.0)
            high = h.submit()
            claimed = h.take()
            assert claimed.id == high
            h.succeed(claimed)
        assert h.take().id == low

    def test_delayed_jobs_go_in_the_order_of_their_due_times(self, h: Harness) -> None:
        """S1-34, S2-25, C14: a delayed job stands where one submitted at that time would."""
        late = h.submit(delay=30.0)
        early = h.submit(delay=10.0)
        h.advance(20.0)
        between = h.submit()
        h.advance(20.0)
        last = h.submit()
        assert ids(h.claim().jobs) == [early, between, late, last]

    def test_due_at_the_same_time_the_first_submitted_goes_first(self, h: Harness) -> None:
        """S1-34, C14."""
        due = h.now + timedelta(seconds=10)
        first, second = h.submit(run_at=due), h.submit(run_at=due)
        h.advance(10.0)
        third = h.submit()
        assert ids(h.claim().jobs) == [first, second, third]

    def test_priority_comes_before_the_due_time(self, h: Harness) -> None:
        """S1-33, C14."""
        waiting = h.submit()
        urgent = h.submit(delay=10.0, priority=Priority.HIGH)
        h.advance(60.0)
        assert ids(h.claim().jobs) == [urgent, waiting]

    def test_a_retried_job_stands_where_its_retry_fell_due(self, h: Harness) -> None:
        """S0-16, C14: later jobs overtake it while it waits, but not after."""
        failed = h.submit()
        h.fail(h.take())
        h.advance(0.5)
        overtakes = h.submit()
        assert h.take().id == overtakes
        before_due = h.submit()
        h.advance(0.5)
        at_due = h.submit()
        h.advance(0.5)
        after_due = h.submit()
        assert ids(h.claim().jobs) == [before_due, failed, at_due, after_due]

    def test_a_recovered_job_stands_where_its_retry_fell_due(self, h: Harness) -> None:
        """S0-16, C14, S4-8: just like a failed one."""
        lost = h.submit()
        h.take()
        h.advance(30.0)
        h.run(h.store.upkeep.recover(10))
        h.advance(0.5)
        before_due = h.submit()
        h.advance(0.5)
        at_due = h.submit()
        assert ids(h.claim().jobs) == [before_due, lost, at_due]

    def test_a_released_job_keeps_its_place(self, h: Harness) -> None:
        """C23: it is first in line again, as if it had never been claimed."""
        first, second, third = h.submit_many(3)
        claimed = h.take()
        h.advance(10.0)
        fourth = h.submit()
        h.release(claimed)
        assert ids(h.claim().jobs) == [first, second, third, fourth]

    def test_a_snoozed_job_stands_at_the_time_it_asked_for(self, h: Harness) -> None:
        """C14."""
        snoozed = h.submit()
        h.snooze(h.take(), 10.0)
        h.advance(5.0)
        before = h.submit()
        h.advance(10.0)
        after = h.submit()
        assert ids(h.claim().jobs) == [before, snoozed, after]

    def test_a_job_reopened_by_hand_goes_behind_those_in_line(self, h: Harness) -> None:
        """C14, C36: it became claimable when it was reopened."""
        reopened = h.job_in(State.FAILED)
        h.advance(1.0)
        before = h.submit()
        h.advance(1.0)
        h.retry(reopened)
        h.advance(1.0)
        after = h.submit()
        assert ids(h.claim().jobs) == [before, reopened, after]

    def test_a_new_priority_moves_the_job_in_line(self, h: Harness) -> None:
        """S1-106, S1-33."""
        first, second, third = h.submit_many(3)
        h.run(h.store.control.edit([Edit(third, Priority.HIGH), Edit(first, Priority.LOW)]))
        assert ids(h.claim().jobs) == [third, second, first]

    def test_promotion_before_the_claim_makes_no_difference(self, h: Harness) -> None:
        """C14, S1-22: the line goes by due time, not by who promoted what when."""
        late, early = h.submit(delay=2.0), h.submit(delay=1.0)
        h.advance(2.0)
        third = h.submit()
        h.run(h.store.upkeep.promote(1))
        h.run(h.store.upkeep.promote(1))
        assert ids(h.claim().jobs) == [early, late, third]
