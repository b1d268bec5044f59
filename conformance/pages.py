"""Which jobs of a search come first, and counts that stop."""

from __future__ import annotations

import pytest

from conformance.harness import Harness, ids, job
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State

__all__ = ["TestPages"]

FILTERS = [
    JobFilter(),
    JobFilter(states=(State.SCHEDULED,)),
    JobFilter(states=(State.SCHEDULED, State.DELAYED, State.CANCELLED)),
    JobFilter(states=(State.RUNNING,)),
    JobFilter(type="mail"),
    JobFilter(queue="bulk", states=(State.DELAYED,)),
    JobFilter(tags={"a": "1"}),
    JobFilter(tags={"a": "1"}, type="mail", states=(State.CANCELLED,)),
    JobFilter(correlation_id="c1"),
    JobFilter(id_prefix="0"),
]


class TestPages:
    def _populate(self, h: Harness) -> None:
        for n in range(18):
            h.advance(1.0)
            h.enqueue(
                job(
                    ("mail", "report")[n % 2],
                    queue=("default", "bulk", "slow")[n % 3],
                    tags=({}, {"a": "1"})[n // 4 % 2],
                    correlation_id=(None, "c1")[n // 2 % 2],
                    delay=(0.0, 60.0)[n % 5 == 0],
                )
            )
        h.claim(3)
        h.run(h.store.control.cancel(ids(h.find()[2:6])))

    def _pages(self, h: Harness, filter: JobFilter, size: int) -> list[str]:
        found: list[str] = []
        after: int | None = None
        for _ in range(40):
            page = h.run(h.store.reader.find(filter, PageRequest(size, after, True)))
            assert len(page.positions) == len(page.jobs)
            found += ids(page.jobs)
            after = page.next
            if after is None:
                return found
        raise AssertionError("the pages go round")

    @pytest.mark.parametrize("filter", FILTERS, ids=str)
    def test_the_oldest_come_first_if_they_are_asked_for(
        self, h: Harness, filter: JobFilter
    ) -> None:
        """S1-96: the newest first turned round, on pages of any size."""
        self._populate(h)
        newest = ids(h.run(h.store.reader.find(filter, PageRequest(50))).jobs)
        for size in (1, 4, 50):
            assert self._pages(h, filter, size) == newest[::-1]

    @pytest.mark.parametrize("filter", FILTERS, ids=str)
    def test_the_ids_alone_are_those_of_a_search(self, h: Harness, filter: JobFilter) -> None:
        """S1-96: in the same order, on pages of any size."""
        self._populate(h)
        newest = ids(h.run(h.store.reader.find(filter, PageRequest(50))).jobs)
        for is_oldest_first, expected in ((False, newest), (True, newest[::-1])):
            for size in (1, 4, 50):
                assert self._selected(h, filter, size, is_oldest_first) == expected

    def _selected(self, h: Harness, filter: JobFilter, size: int, is_up: bool) -> list[str]:
        found: list[str] = []
        after: int | None = None
        for _ in range(40):
            page = h.run(h.store.control.select(filter, PageRequest(size, after, is_up)))
            assert len(page.ids) == size or page.next is None
            found += page.ids
            after = page.next
            if after is None:
                return found
        raise AssertionError("the pages go round")

    def test_the_oldest_are_found_within_times(self, h: Harness) -> None:
        """S1-96."""
        self._populate(h)
        every = h.find()
        filter = JobFilter(created_after=every[12].created_at, created_before=every[3].created_at)
        assert self._pages(h, filter, 4) == ids(every[4:13])[::-1]

    def test_a_page_of_the_oldest_goes_on_with_what_came_later(self, h: Harness) -> None:
        """S1-96: a job that is submitted meanwhile stands at the end."""
        self._populate(h)
        every = ids(h.find())[::-1]
        first = h.run(h.store.reader.find(JobFilter(), PageRequest(10, None, True)))
        h.advance(1.0)
        new = h.submit()
        rest = h.run(h.store.reader.find(JobFilter(), PageRequest(50, first.next, True)))
        assert ids([*first.jobs, *rest.jobs]) == [*every, new]
        within = h.run(h.store.reader.find(JobFilter(), PageRequest(3, first.positions[4], True)))
        assert ids(within.jobs) == every[5:8]

    def test_a_key_finds_the_last_job_of_each_type_that_took_it(self, h: Harness) -> None:
        """S1-96: whether it still holds it or has ended."""
        old = h.submit(key=Key("k", 30.0))
        h.succeed(h.take())
        assert ids(h.find(key="k")) == [old]
        h.advance(60.0)
        new = h.submit(key=Key("k", 30.0))
        other = h.submit("report", key=Key("k", 30.0), queue="bulk")
        h.enqueue(job("mail", key=Key("j")), job("mail"))
        assert sorted(ids(h.find(key="k"))) == sorted([new, other])
        assert ids(h.find(key="k", type="mail")) == [new]
        assert ids(h.find(key="k", queue="bulk")) == [other]
        assert h.find(key="k", states=(State.RUNNING,)) == []
        assert h.find(key="nobody") == []
        assert ids(h.find(key="k", id_prefix=new.replace("-", ""))) == [new]
        assert h.find(key="k", id_prefix=old.replace("-", "")) == []
        filter = JobFilter(key="k")
        assert h.run(h.store.reader.count(filter)) == 2
        assert h.run(h.store.reader.count(filter, 1)) == 1
        assert sorted(self._pages(h, filter, 1)) == sorted([new, other])

    @pytest.mark.parametrize("filter", FILTERS, ids=str)
    def test_a_count_stops_where_it_is_asked_to(self, h: Harness, filter: JobFilter) -> None:
        """What counters answer is not cut."""
        self._populate(h)
        total = h.run(h.store.reader.count(filter))
        for most in (1, 3, 50):
            expected = total if filter.is_countable else min(total, most)
            assert h.run(h.store.reader.count(filter, most)) == expected
