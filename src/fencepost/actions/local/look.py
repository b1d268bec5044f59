"""Searches that read jobs: by conditions for which no store has an index (``core/look.py``).

Each step is one short page of the store, so that nothing waits for a search that reads many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencepost.actions.backend import Script
from fencepost.core.bounds import LOOK_BYTES, LOOK_FIRST, LOOK_MAX, LOOK_PAGE
from fencepost.core.filter import JobQuery, PageRequest
from fencepost.core.job.job import BODIES, Job
from fencepost.store.interface.reader import JobPage
from fencepost.store.interface.store import Store


class LookPage(NamedTuple):
    """Jobs that meet the conditions, where to go on, and what finding them took."""

    jobs: list[Job]
    next: int | None
    looked: int | None = None
    """How many were read; None if none had to be."""
    unreadable: int = 0
    """How many of those could not be compared: encrypted, or not JSON."""


def find(
    store: Store,
    query: JobQuery,
    page: PageRequest,
    *,
    bound: int | None = None,
    on_read: Callable[[int], None] = lambda _: None,
) -> Script[LookPage]:
    """Return a page of jobs; it ends early after *bound* that had to be read, or LOOK_MAX."""
    if query.look.is_any:
        whole: JobPage = yield store.reader.find(query.filter, page)
        return LookPage(whole.jobs, whole.next)
    jobs: list[Job] = []
    looked = unreadable = 0
    bound = LOOK_MAX if bound is None else bound
    position, is_oldest_first = page.after, page.is_oldest_first
    size, read = LOOK_FIRST, 0
    while looked < bound:
        asked = PageRequest(min(size, LOOK_PAGE, bound - looked), position, is_oldest_first)
        part: JobPage = yield store.reader.find(query.filter, asked)
        read += sum(map(_size_of, part.jobs))
        size = max(LOOK_BYTES * (looked + len(part.jobs)) // max(read, 1), 1)
        for job, place in zip(part.jobs, [*part.positions[:-1], part.next], strict=False):
            looked += 1
            verdict = query.look.judge(job)
            unreadable += verdict is None
            if verdict:
                jobs.append(job)
            if len(jobs) == page.limit:
                on_read(looked)
                return LookPage(jobs, place, looked, unreadable)
        on_read(looked)
        position = part.next
        if position is None:
            break
    return LookPage(jobs, position, looked, unreadable)


def _size_of(job: Job) -> int:
    bodies = (getattr(job, f"{name}_body") for name in BODIES)
    return sum(len(body.data) for body in bodies if body is not None)
