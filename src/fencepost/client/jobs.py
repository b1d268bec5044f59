"""``client.jobs``: find the jobs of a server and steer them."""

from __future__ import annotations

from typing import Unpack

from fencepost.client import job_scripts as scripts
from fencepost.client.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.client.job_scripts import Page
from fencepost.client.session import Session
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import Conditions, States
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import Duration
from fencepost.wire.jobs import JobSummary


class Jobs:
    """The jobs of a server; ``client.aio.jobs`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, id: str) -> JobHandle:
        """Return the handle of a job, or raise JobNotFoundError."""
        return handle(self._session, self._session.run(scripts.look(self._session, id)))

    def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page:
        """Return a page of the jobs that meet every condition, newest first."""
        return self._session.run(scripts.find(self._session, after, limit, conditions))

    def count(
        self, *, state: States = None, type: str | None = None, queue: str | None = None
    ) -> int:
        """Count the jobs of a state, a type and a queue, at no cost."""
        return self._session.run(scripts.count(self._session, state, type, queue))

    def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return self._session.run(scripts.cancel_some(self._session, id, conditions))

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
            script = scripts.retry(self._session, id, reset_attempts, delay, priority)
            return self._session.run(script)

    def edit(self, id: str, **edits: Unpack[Edits]) -> JobSummary:
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

    async def get(self, id: str) -> AsyncJobHandle:
        """Return the handle of a job, or raise JobNotFoundError."""
        return async_handle(
            self._session, await self._session.run_async(scripts.look(self._session, id))
        )

    async def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page:
        """Return a page of the jobs that meet every condition, newest first."""
        return await self._session.run_async(scripts.find(self._session, after, limit, conditions))

    async def count(
        self, *, state: States = None, type: str | None = None, queue: str | None = None
    ) -> int:
        """Count the jobs of a state, a type and a queue, at no cost."""
        return await self._session.run_async(scripts.count(self._session, state, type, queue))

    async def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return await self._session.run_async(scripts.cancel_some(self._session, id, conditions))

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
            script = scripts.retry(self._session, id, reset_attempts, delay, priority)
            return await self._session.run_async(script)

    async def edit(self, id: str, **edits: Unpack[Edits]) -> JobSummary:
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
