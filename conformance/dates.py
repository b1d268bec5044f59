"""Looking for jobs by when they were created."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.harness import INSTANT, Harness, ids, job
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import State

__all__ = ["TestDates"]

LONG = 60.0
"""Between two jobs: far longer than a store allows their order to be wrong by."""


class TestDates:
    def test_after_a_time_begins_at_it_and_before_ends_at_it(self, h: Harness) -> None:
        """S1-107: two filters that meet at a time share no job and miss none."""
        before = h.submit()
        h.advance(1.0)
        at = h.now
        exact = h.submit()
        h.advance(1.0)
        after = h.submit()
        assert ids(h.find(created_after=at)) == [after, exact]
        assert ids(h.find(created_before=at)) == [before]
        assert ids(h.find(created_after=at + INSTANT)) == [after]
        assert ids(h.find(created_before=at + INSTANT)) == [exact, before]
        assert h.find(created_after=at, created_before=at) == []

    @pytest.mark.parametrize("step", [LONG, 0.01, 0.000_001], ids=["far", "near", "next"])
    def test_a_stretch_of_time_is_found_counted_and_paged(self, h: Harness, step: float) -> None:
        """S1-107: whatever the states, and however close the jobs are to each other."""
        job_ids, times = self._populate(h, 40, step)
        for start, end in ((0, 40), (10, 30), (0, 1), (39, 40), (20, 20), (35, 5)):
            stretch: dict[str, Any] = {
                "created_after": times[start] if start < 40 else None,
                "created_before": times[end] if end < 40 else None,
            }
            expected = job_ids[start:end][::-1]
            assert ids(h.find(**stretch)) == expected
            assert self._paged(h, JobFilter(**stretch)) == expected
            assert h.run(h.store.reader.count(JobFilter(**stretch))) == len(expected)

    @pytest.mark.parametrize(
        "conditions",
        [
            {"states": (State.COMPLETED,)},
            {"states": (State.SCHEDULED, State.RUNNING, State.DELAYED)},
            {"type": "mail"},
            {"queue": "bulk"},
            {"tags": {"a": "1"}},
            {"correlation_id": "c1"},
            {"type": "mail", "states": (State.COMPLETED, State.SCHEDULED), "tags": {"a": "1"}},
        ],
        ids=str,
    )
    def test_a_stretch_of_time_is_one_condition_among_others(
        self, h: Harness, conditions: dict[str, Any]
    ) -> None:
        """S1-105, S1-107, S1-108."""
        _, times = self._populate(h, 40, LONG)
        everything = h.find(**conditions)
        stretch: dict[str, Any] = {"created_after": times[10], "created_before": times[30]}
        expected = [each.id for each in everything if times[10] <= each.created_at < times[30]]
        assert 0 < len(expected) < len(everything)
        filter = JobFilter(**conditions, **stretch)
        assert ids(h.find(**conditions, **stretch)) == expected
        assert self._paged(h, filter) == expected
        assert h.run(h.store.reader.count(filter)) == len(expected)

    def test_any_time_of_the_calendar_can_be_asked_for(self, h: Harness) -> None:
        job_id = h.submit()
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        assert ids(h.find(created_after=first, created_before=last)) == [job_id]
        assert h.find(created_before=first) == h.find(created_after=last) == []
        assert h.run(h.store.reader.count(JobFilter(created_before=first))) == 0

    def test_jobs_that_came_from_another_store_are_found_by_when_they_were_created_there(
        self, h: Harness
    ) -> None:
        """Their place in the order of submission says nothing of when that was."""
        job_ids, times = self._populate(h, 12, LONG)
        dump = h.run(h.store.transfer.dump(0, 100)).records
        shift = timedelta(days=400)
        moved = []
        for number, record in enumerate(dump):
            if record.job.state is State.RUNNING:
                continue
            created_at = record.job.created_at + (-shift if number % 2 else shift)
            other = replace(record.job, id=f"{number:08}{record.job.id[8:]}", created_at=created_at)
            moved.append(replace(record, job=other, holds_key=False))
        h.run(h.store.transfer.load(moved))
        h.advance(LONG)
        last = h.submit()
        everything = h.find()
        for at in (times[0], times[6], h.now, times[6] - shift, times[6] + shift):
            later = [each.id for each in everything if each.created_at >= at]
            earlier = [each.id for each in everything if each.created_at < at]
            assert ids(h.find(created_after=at)) == later
            assert ids(h.find(created_before=at)) == earlier
        assert ids(h.find())[0] == last
        assert set(job_ids) < {each.id for each in everything}

    def _populate(self, h: Harness, count: int, step: float) -> tuple[list[str], list[datetime]]:
        """Submit *count* jobs of all kinds, one after another; return their ids and times."""
        job_ids, times = [], []
        for n in range(count):
            times.append(h.now)
            job_ids += h.submit_all(
                job(
                    ("mail", "report")[n % 2],
                    queue=("default", "bulk")[n % 3 == 0],
                    tags=({}, {"a": "1"})[n % 4 < 2],
                    correlation_id=(None, "c1")[n % 5 < 2],
                    delay=(0.0, 500_000.0)[n % 7 == 0],
                )
            )
            h.advance(step)
        for position, claimed in enumerate(h.claim(count * 2 // 3, lease_ttl=1e5).jobs):
            if position % 3:
                h.succeed(claimed)
        return job_ids, times

    def _paged(self, h: Harness, filter: JobFilter) -> list[str]:
        found: list[str] = []
        after: int | None = None
        for _ in range(100):
            page = h.run(h.store.reader.find(filter, PageRequest(3, after)))
            found += ids(page.jobs)
            after = page.next
            if after is None:
                return found
        raise AssertionError("the pages do not come to an end")
