"""Jobs in the order of their end: for statistics, and for followers of what happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from conformance.harness import (
    DEAD,
    INSTANT,
    NOBODY,
    ONE_ATTEMPT,
    TERMINAL,
    TTL,
    Harness,
    job,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.stats.statistics import EndedJob

__all__ = ["TestEnded"]

EVER = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400.0


class TestEnded:
    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_an_end_is_told_with_the_times_of_the_job(self, h: Harness, state: State) -> None:
        """S1-100, S1-103: whatever way it ended."""
        h.submit(delay=3.0, queue="bulk", type="report", policy=ONE_ATTEMPT)
        h.advance(5.0)
        if state is State.CANCELLED:
            [waiting] = h.find()
            h.cancel(waiting.id)
        else:
            claimed = h.take()
            h.advance(2.0)
            {
                State.COMPLETED: h.succeed,
                State.FAILED: h.reject,
                State.DEAD_LETTER: h.fail,
            }[state](claimed)
        h.advance(DAY)
        [ended] = self._all(h)
        [found] = h.find()
        assert ended == EndedJob(
            id=found.id,
            type="report",
            queue="bulk",
            state=state,
            attempt=found.attempt,
            created_at=found.created_at,
            scheduled_at=found.scheduled_at,
            started_at=found.started_at,
            completed_at=found.completed_at or EVER,
            position=ended.position,
        )
        assert (ended.started_at is None) == (state is State.CANCELLED)

    def test_a_job_that_ends_between_two_attempts_has_started(self, h: Harness) -> None:
        """S1-103."""
        job_id = h.submit()
        h.fail(h.take())
        h.advance(1.0)
        h.cancel(job_id)
        [ended] = self._all(h)
        assert ended.started_at == h.get(job_id).started_at is not None

    def test_ends_are_in_order_both_ways_page_by_page(self, h: Harness) -> None:
        """Whole and without repeats, also of those that ended at once."""
        expected = self._end_many(h)
        assert [each.id for each in self._all(h)] == expected
        assert [each.id for each in self._all(h, newest_first=True)] == expected[::-1]
        for limit in (1, 4, 100):
            for newest_first in (False, True):
                paged = self._paged(h, EVER, limit, newest_first)
                assert paged == (expected[::-1] if newest_first else expected)

    def test_what_ended_before_is_left_out(self, h: Harness) -> None:
        expected = self._end_many(h)
        everything = self._all(h)
        for since in {each.completed_at for each in everything} | {h.now, h.now + INSTANT}:
            wanted = [each.id for each in everything if each.completed_at >= since]
            assert [each.id for each in self._all(h, since)] == wanted
            assert self._paged(h, since, 3, False) == wanted
            assert self._paged(h, since, 3, True) == wanted[::-1]
        assert {each.id for each in everything} == set(expected)

    def test_reading_goes_on_behind_the_last_end(self, h: Harness) -> None:
        """What ended meanwhile comes next, and nothing comes again."""
        assert h.run(h.store.overview.ended(EVER, limit=5)).next is None
        first = self._end(h)
        [seen] = self._all(h)
        after = seen.position
        assert h.run(h.store.overview.ended(EVER, limit=5, after=after)).jobs == []
        h.advance(0.01)
        second = self._end(h)
        [later] = h.run(h.store.overview.ended(EVER, limit=5, after=after)).jobs
        assert (seen.id, later.id) == (first, second)
        assert later.position > seen.position

    def test_a_page_that_just_holds_all_is_the_last(self, h: Harness) -> None:
        for _ in range(3):
            self._end(h)
        assert h.run(h.store.overview.ended(EVER, limit=3)).next is None
        assert h.run(h.store.overview.ended(EVER, limit=2)).next is not None

    @pytest.mark.parametrize("state", DEAD, ids=str)
    def test_a_job_that_is_run_again_has_not_ended_until_it_ends_again(
        self, h: Harness, state: State
    ) -> None:
        """S1-101: then at another place."""
        job_id = h.job_in(state)
        [first] = self._all(h)
        h.advance(1.0)
        h.retry(job_id)
        assert self._all(h) == []
        h.succeed(h.take())
        [second] = self._all(h)
        assert (second.id, second.state) == (job_id, State.COMPLETED)
        assert second.position > first.position

    def test_expired_leases_and_lifetimes_are_ends(self, h: Harness) -> None:
        """S1-58, S1-59: nobody settled them."""
        h.submit(policy=ONE_ATTEMPT)
        h.take()
        h.advance(TTL)
        h.run(h.store.upkeep.recover(10))
        assert [each.state for each in self._all(h)] == [State.DEAD_LETTER]

    def test_a_place_that_nobody_gave_out_does_no_harm(self, h: Harness) -> None:
        job_id = self._end(h)
        assert [each.id for each in h.run(h.store.overview.ended(EVER, limit=5, after=0)).jobs] == [
            job_id
        ]
        assert h.run(h.store.overview.ended(EVER, limit=5, after=10**18)).jobs == self._all(h)
        assert job_id != NOBODY

    def test_the_whole_calendar_can_be_asked_for(self, h: Harness) -> None:
        job_id = self._end(h)
        first = datetime.min.replace(tzinfo=UTC)
        assert [each.id for each in self._all(h, first)] == [job_id]
        assert [each.id for each in self._all(h, first, newest_first=True)] == [job_id]
        assert self._all(h, datetime.max.replace(tzinfo=UTC)) == []

    def _end(self, h: Harness) -> str:
        job_id = h.submit()
        h.succeed(h.take())
        return job_id

    def _end_many(self, h: Harness) -> list[str]:
        """End jobs in another order than that of their submission; return their ids in order."""
        h.submit_many(9, policy=Policy(timeout=3 * DAY))
        h.advance(10.0)
        claimed = h.claim(9).jobs
        assert len(claimed) == 9
        expected: list[str] = []
        for some, pause in (((7, 8), 0.000_001), ((0, 3), 0.4), ((1, 2, 4), 70.0), ((6,), DAY)):
            expected += [claimed[place].id for place in some]
            h.heartbeat(claimed[5], lease_ttl=2 * DAY)
            if 6 not in some:
                h.heartbeat(claimed[6], lease_ttl=2 * DAY)
            h.succeed_all([claimed[place] for place in some])
            h.advance(pause)
        h.reject(claimed[5])
        h.enqueue(job(delay=5.0))
        h.advance(timedelta(seconds=3))
        return [*expected, claimed[5].id]

    def _all(
        self, h: Harness, since: datetime = EVER, *, newest_first: bool = False
    ) -> list[EndedJob]:
        page = h.run(h.store.overview.ended(since, limit=100, newest_first=newest_first))
        assert page.next is None
        return page.jobs

    def _paged(self, h: Harness, since: datetime, limit: int, newest_first: bool) -> list[str]:
        found: list[str] = []
        after: int | None = None
        for _ in range(100):
            asked = h.store.overview.ended(
                since, limit=limit, after=after, newest_first=newest_first
            )
            page = h.run(asked)
            found += [each.id for each in page.jobs]
            after = page.next
            if after is None:
                return found
        raise AssertionError("the pages do not come to an end")
