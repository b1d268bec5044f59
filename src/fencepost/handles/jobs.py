"""``app.jobs`` and ``client.jobs``: find jobs and steer them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack

from fencepost.actions.pages import Page
from fencepost.actions.script import Script
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import Conditions, make_filter
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import Duration
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.part import BackendPart

J = TypeVar("J")


class _Jobs(BackendPart, Generic[J]):
    """What both faces share."""

    def _cancel(self, id: str | None, conditions: Conditions) -> Script[int]:
        """Cancel one job by id, or all that meet the conditions; return how many."""
        filter = make_filter(**conditions)
        if id is None:
            return (yield from self._actions.jobs.cancel_all(filter))
        yield from self._actions.jobs.cancel(id)
        return 1


class Jobs(_Jobs[J]):
    """The jobs of an app or a server; ``aio.jobs`` has the same methods, awaited. *J* is a job as
    lists show it."""

    def get(self, id: str) -> JobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        return handle(self._backend, self._backend.run(self._actions.jobs.get(id)))

    def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first."""
        return self._backend.run(self._actions.jobs.find(make_filter(**conditions), after, limit))

    def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue at no cost."""
        return self._backend.run(self._actions.jobs.count(make_filter(**conditions)))

    def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return self._backend.run(self._cancel(id, conditions))

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
        with naming_existing(self._backend):
            return self._backend.run(self._actions.jobs.retry(id, reset_attempts, delay, priority))

    def edit(self, id: str, **edits: Unpack[Edits]) -> J:
        """Change the tags of a job; of one that waits, also when it runs, with what, and how soon.

        A priority set so holds for this job, and reaches those that wait for it (C46, S1-37).
        """
        edited: J = self._backend.run(self._actions.jobs.edit(id, edits))
        return edited

    def why(self, id: str) -> list[Reason]:
        """Say in words why a job is where it is."""
        return self._backend.run(self._actions.jobs.why(id))

    def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return self._backend.run(self._actions.jobs.attempts(id))

    def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return self._backend.run(self._actions.jobs.history(id))


class AsyncJobs(_Jobs[J]):
    """The awaited face of Jobs."""

    async def get(self, id: str) -> AsyncJobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        return async_handle(
            self._backend, await self._backend.run_async(self._actions.jobs.get(id))
        )

    async def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first."""
        return await self._backend.run_async(
            self._actions.jobs.find(make_filter(**conditions), after, limit)
        )

    async def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue at no cost."""
        return await self._backend.run_async(self._actions.jobs.count(make_filter(**conditions)))

    async def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Whatever waited for one of them is cancelled too, and counted.
        """
        return await self._backend.run_async(self._cancel(id, conditions))

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
        async with naming_existing_async(self._backend):
            return await self._backend.run_async(
                self._actions.jobs.retry(id, reset_attempts, delay, priority)
            )

    async def edit(self, id: str, **edits: Unpack[Edits]) -> J:
        """Change the tags of a job; of one that waits, also when it runs, with what, and how soon.

        A priority set so holds for this job, and reaches those that wait for it (C46, S1-37).
        """
        edited: J = await self._backend.run_async(self._actions.jobs.edit(id, edits))
        return edited

    async def why(self, id: str) -> list[Reason]:
        """Say in words why a job is where it is."""
        return await self._backend.run_async(self._actions.jobs.why(id))

    async def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return await self._backend.run_async(self._actions.jobs.attempts(id))

    async def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return await self._backend.run_async(self._actions.jobs.history(id))
