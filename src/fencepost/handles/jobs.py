"""``app.jobs``: find jobs and steer them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Unpack

import msgspec

from fencepost.actions import jobs as scripts
from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import (
    Conditions,
    JobFilter,
    encode_cursor,
    make_filter,
    make_page,
)
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import Duration
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest first, and the cursor of the page after; iterates over its jobs."""

    jobs: list[Job]
    next: str | None = None

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


def find(session: Session, filter: JobFilter, after: str | None, limit: int) -> Script[Page]:
    """Return a page of jobs."""
    page = yield session.store.reader.find(filter, make_page(limit=limit, after=after))
    return Page(page.jobs, None if page.next is None else encode_cursor(page.next))


def count(session: Session, filter: JobFilter) -> Script[int]:
    """Count the jobs that meet *filter*."""
    total: int = yield session.store.reader.count(filter)
    return total


def cancel(
    session: Session,
    job_id: str | None,
    filter: JobFilter,
    *,
    queues: Collection[str] | None = None,
) -> Script[int]:
    """Cancel one job by id, or all that meet *filter*; return how many."""
    if job_id is not None:
        yield from scripts.cancel(session, job_id)
        return 1
    return (yield from scripts.cancel_all(session, filter, queues=queues))


class Jobs:
    """The jobs of an app; ``app.aio.jobs`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, id: str) -> JobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        job = self._session.run(scripts.get(self._session, id))
        return JobHandle(self._session, job.id, job.type, job.state)

    def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page:
        """Return a page of the jobs that meet every condition, newest first."""
        return self._session.run(find(self._session, make_filter(**conditions), after, limit))

    def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue at no cost."""
        return self._session.run(count(self._session, make_filter(**conditions)))

    def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return self._session.run(cancel(self._session, id, make_filter(**conditions)))

    def retry(
        self,
        id: str,
        *,
        reset_attempts: bool = True,
        delay: Duration = 0,
        priority: Priority | int | str | None = None,
    ) -> State:
        """Run a failed or cancelled job again, under the same id; or one that waits, now.

        One that is delayed, or waits for its next attempt, is due after *delay* instead (C45).
        """
        with naming_existing(self._session):
            return self._session.run(
                scripts.retry(self._session, id, reset_attempts, delay, priority)
            )

    def edit(self, id: str, **edits: Unpack[Edits]) -> Job:
        """Change the tags of a job; of one that waits, also when it runs, with what, and how soon.

        A priority set so holds for this job, and reaches those that wait for it (C46, S1-37).
        """
        return self._session.run(scripts.edit(self._session, id, edits))

    def why(self, id: str) -> list[Reason]:
        """Say in words why a job is where it is."""
        return self._session.run(scripts.why(self._session, id))

    def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return self._session.run(scripts.attempts(self._session, id))

    def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return self._session.run(scripts.history(self._session, id))


class AsyncJobs:
    """The awaited face of Jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, id: str) -> AsyncJobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        job = await self._session.run_async(scripts.get(self._session, id))
        return AsyncJobHandle(self._session, job.id, job.type, job.state)

    async def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page:
        """Return a page of the jobs that meet every condition, newest first."""
        return await self._session.run_async(
            find(self._session, make_filter(**conditions), after, limit)
        )

    async def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue at no cost."""
        return await self._session.run_async(count(self._session, make_filter(**conditions)))

    async def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return await self._session.run_async(cancel(self._session, id, make_filter(**conditions)))

    async def retry(
        self,
        id: str,
        *,
        reset_attempts: bool = True,
        delay: Duration = 0,
        priority: Priority | int | str | None = None,
    ) -> State:
        """Run a failed or cancelled job again, under the same id; or one that waits, now.

        One that is delayed, or waits for its next attempt, is due after *delay* instead (C45).
        """
        async with naming_existing_async(self._session):
            return await self._session.run_async(
                scripts.retry(self._session, id, reset_attempts, delay, priority)
            )

    async def edit(self, id: str, **edits: Unpack[Edits]) -> Job:
        """Change the tags of a job; of one that waits, also when it runs, with what, and how soon.

        A priority set so holds for this job, and reaches those that wait for it (C46, S1-37).
        """
        return await self._session.run_async(scripts.edit(self._session, id, edits))

    async def why(self, id: str) -> list[Reason]:
        """Say in words why a job is where it is."""
        return await self._session.run_async(scripts.why(self._session, id))

    async def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return await self._session.run_async(scripts.attempts(self._session, id))

    async def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return await self._session.run_async(scripts.history(self._session, id))
