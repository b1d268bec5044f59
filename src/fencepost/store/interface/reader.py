"""Looking at jobs: one by one, by a filter, with what is around them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Attempt, DeadLetter, Dependency, Job
from fencepost.core.job.why import Situation
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class JobPage(msgspec.Struct, frozen=True):
    """Jobs, in the order asked for, and the position of the last; None when there are no more."""

    jobs: list[Job]
    next: int | None = None
    positions: list[int] = []
    """Of each job, so that a reader can stop at any of them."""


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, newest first."""

    letters: list[DeadLetter]
    next: int | None = None


class ReaderFacet(Facet, abstract=True):
    """Looking at jobs: one by one, by a filter, with what is around them."""

    @operation(Effect.READ, has_content=True)
    def get(self, job_ids: Sequence[str]) -> Operation[list[Job | None]]:
        """Return jobs by id; None for one that is not there."""

    @operation(Effect.READ, has_content=False)
    def locate(self, job_ids: Sequence[str]) -> Operation[list[str | None]]:
        """Return the queue of each job, and nothing else of it; None for one that is not there."""

    @operation(Effect.READ, has_content=True)
    def find(self, filter: JobFilter, page: PageRequest) -> Operation[JobPage]:
        """Return a page of the jobs that *filter* selects, newest first unless *page* says so."""

    @operation(Effect.READ, has_content=False, is_long=True)
    def count(self, filter: JobFilter, at_most: int | None = None) -> Operation[int]:
        """Count the jobs that *filter* selects; stop at *at_most*, unless counters answer."""

    @operation(Effect.READ, has_content=True)
    def attempts(self, job_id: str) -> Operation[list[Attempt] | None]:
        """Return the attempts of a job, oldest first; None when there is no such job."""

    @operation(Effect.READ, has_content=True)
    def dependencies(
        self, job_ids: Sequence[str], *, with_results: bool = False
    ) -> Operation[list[list[Dependency]]]:
        """Return what each job waits for or waited for, in order; nothing for an unknown one."""

    @operation(Effect.READ, has_content=False)
    def dependents(self, job_ids: Sequence[str]) -> Operation[list[list[str]]]:
        """Return the ids of those that wait for each job or waited for it, oldest first."""

    @operation(Effect.READ, has_content=True)
    def situation(self, job_id: str) -> Operation[Situation | None]:
        """Return what ``core/job/why.py`` needs to explain where a job is."""

    @operation(Effect.READ, has_content=True)
    def dead_letters(
        self, type: str | None, page: PageRequest, queues: Sequence[str] | None = None
    ) -> Operation[DeadLetterPage]:
        """Return a page of dead letters (of a type, and of some queues), newest first."""
