"""Lists that are read page by page, as wholes: positions are a store's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fencepost.core.access.audit import Action
from fencepost.core.events import SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import DeadLetter, Job, JobRecord
from fencepost.core.stats.statistics import EndedJob

CALLS_MAX = 100
"""A store whose pages go round must fail, not hang."""

Ask = Callable[..., Any]
"""Run one operation: its name, and then its arguments."""


def find(ask: Ask, filter: JobFilter, limit: int, is_oldest_first: bool = False) -> list[Job]:
    def page(after: int | None) -> Any:
        return ask("find", filter, PageRequest(limit, after, is_oldest_first))

    jobs = _followed(page, what="find", field="jobs", limit=limit)
    # Compared in one order: leave is given to stores by the place in it.
    return jobs[::-1] if is_oldest_first else jobs


def select(ask: Ask, filter: JobFilter, limit: int) -> list[str]:
    return _listed(ask, ("select", filter), field="ids", limit=limit)


def dead_letters(ask: Ask, type: str | None, limit: int) -> list[DeadLetter]:
    letters = _listed(ask, ("dead_letters", type), field="letters", limit=limit)
    assert letters == sorted(letters, key=lambda letter: letter.completed_at, reverse=True)
    return letters


def events(ask: Ask, name: str | None, limit: int) -> list[SentEvent]:
    """Return the records oldest first, so that those which one store lacks stand at the end."""
    return _listed(ask, ("events", name), field="events", limit=limit)[::-1]


def actions(ask: Ask, limit: int) -> list[Action]:
    return _listed(ask, ("actions",), field="actions", limit=limit)


def ended(ask: Ask, since: datetime, limit: int, newest_first: bool) -> list[EndedJob]:
    """Return the jobs that ended, in the order of their end, without their positions."""

    def page(after: int | None) -> Any:
        return ask("ended", since, limit=limit, after=after, newest_first=newest_first)

    jobs = _followed(page, what="ended", field="jobs", limit=limit)
    assert len({job.position for job in jobs}) == len(jobs)
    assert jobs == sorted(jobs, key=lambda job: job.completed_at, reverse=newest_first)
    return [replace(job, position=0) for job in jobs]


def _listed(ask: Ask, asked: tuple[Any, ...], *, field: str, limit: int) -> list[Any]:
    def page(after: int | None) -> Any:
        return ask(*asked, PageRequest(limit, after))

    return _followed(page, what=asked[0], field=field, limit=limit)


def _followed(
    page_after: Callable[[int | None], Any], *, what: str, field: str, limit: int
) -> list[Any]:
    """Return what stands on all pages; each but the last must be full."""
    found: list[Any] = []
    after = None
    for _ in range(CALLS_MAX):
        page = page_after(after)
        shown = getattr(page, field)
        assert len(shown) == limit or page.next is None
        found += shown
        after = page.next
        if after is None:
            return found
    raise AssertionError(f"the pages of {what} go round")


def dump(ask: Ask, limit: int) -> list[JobRecord]:
    records: list[JobRecord] = []
    after = 0
    for _ in range(CALLS_MAX):
        page = ask("dump", after, limit)
        records += page.records
        if not page.records:
            assert page.last == after
            return records
        after = page.last
    raise AssertionError("the pages of dump go round")
