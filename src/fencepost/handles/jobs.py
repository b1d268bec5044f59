"""``jobs`` and ``dead_letters`` of an app or a client: find jobs, change and replay them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack

from fencepost.actions.backend import Script
from fencepost.actions.options import RetryArguments, retry_choice
from fencepost.actions.replies import BoundedCount, DeadLetters, EditCount, Page
from fencepost.core.bounds import LOOK_MAX, PAGE_DEFAULT
from fencepost.core.filter import Conditions, JobOrder, is_oldest_first, make_query
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import Edits, ManyEdits, State
from fencepost.core.job.why import Reason
from fencepost.errors import ConfigurationError
from fencepost.handles.job import AsyncJobHandle, Awaited, BackendPart, Blocking, JobHandle

J = TypeVar("J")


class _Jobs(BackendPart, Generic[J]):
    """What both faces share."""

    def _cancel(self, id: str | None, conditions: Conditions) -> Script[int]:
        """Cancel one job by id, or all that meet the conditions; return how many."""
        query = make_query(**conditions)
        if id is None:
            return (yield from self._actions.jobs.cancel_all(query))
        yield from self._actions.jobs.cancel(id)
        return 1

    def _count(self, conditions: Conditions) -> Script[int]:
        """Count all jobs that meet the conditions, or raise ConfigurationError."""
        found = yield from self._actions.jobs.count(make_query(**conditions))
        if not found.is_exact:
            raise ConfigurationError(
                f"there are {found.count:,} such jobs and perhaps more; add conditions, or take "
                f"bounded_count(), which says whether that is all"
            )
        return found.count

    def _find(
        self, after: str | None, limit: int, order: JobOrder, conditions: Conditions
    ) -> Script[Page[J]]:
        oldest = is_oldest_first(order)
        query = make_query(**conditions)
        return self._actions.jobs.find(query, after, limit, is_oldest_first=oldest)


class Jobs(_Jobs[J], Blocking):
    """The jobs; ``aio.jobs`` has the same methods, awaited. *J* is a job as lists show it."""

    def get(self, id: str) -> JobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        return self._handle(self._run(self._actions.jobs.get(id)))

    def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        order: JobOrder = "newest",
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first, or oldest first.

        For a condition without an index (see ``Conditions``), up to 10,000 jobs are read for one
        page; ``looked`` says how many. It may have fewer jobs than *limit* although more follow.
        """
        return self._run(self._find(after, limit, order, conditions))

    def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue it is cheap.

        Raise ConfigurationError where not all are counted: by conditions without an index, if there
        are more than 10,000 to read; by a client, also if more than 10,000 meet others.
        """
        return self._run(self._count(conditions))

    def bounded_count(self, **conditions: Unpack[Conditions]) -> BoundedCount:
        """Count the same, and stop at 10,000 if there are no counters; it says if it did."""
        return self._run(self._actions.jobs.count(make_query(**conditions), LOOK_MAX))

    def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many.

        Their dependents are cancelled too, and counted.
        """
        return self._run(self._cancel(id, conditions))

    def retry(self, id: str, **choice: Unpack[RetryArguments]) -> State:
        """Run a failed or cancelled job again, under the same id; or run a waiting one now.

        A job that is delayed, or waits for its next attempt, becomes due after *delay* (C45).
        """
        return self._run_keyed(self._actions.jobs.retry(id, retry_choice(**choice)))

    def edit(self, id: str, **edits: Unpack[Edits]) -> J:
        """Change the tags of a job; of a waiting one also its time, payload and priority.

        The new priority holds for this job and reaches the jobs that wait for it (C46, S1-37).
        """
        edited: J = self._run(self._actions.jobs.edit(id, edits))
        return edited

    def edit_all(self, edits: ManyEdits, **conditions: Unpack[Conditions]) -> EditCount:
        """Edit every job that meets the conditions and may be edited so; a repeat is safe.

        Priority and time change in jobs that wait, tags in all. It counts the refusals by code.
        """
        return self._run(self._actions.jobs.edit_all(make_query(**conditions), edits))

    def why(self, id: str) -> list[Reason]:
        """Explain why a job is in its state."""
        return self._run(self._actions.jobs.why(id))

    def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return self._run(self._actions.jobs.attempts(id))

    def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return self._run(self._actions.jobs.history(id))


class AsyncJobs(_Jobs[J], Awaited):
    """The awaited face of Jobs."""

    async def get(self, id: str) -> AsyncJobHandle[Any]:
        """Return the handle of a job, or raise JobNotFoundError."""
        return self._handle(await self._run(self._actions.jobs.get(id)))

    async def find(
        self,
        *,
        after: str | None = None,
        limit: int = PAGE_DEFAULT,
        order: JobOrder = "newest",
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first, or oldest first.

        For a condition without an index (see ``Conditions``), up to 10,000 jobs are read for one
        page; ``looked`` says how many. It may have fewer jobs than *limit* although more follow.
        """
        return await self._run(self._find(after, limit, order, conditions))

    async def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue it is cheap.

        Raise ConfigurationError where not all are counted: by conditions without an index, if there
        are more than 10,000 to read; by a client, also if more than 10,000 meet others.
        """
        return await self._run(self._count(conditions))

    async def bounded_count(self, **conditions: Unpack[Conditions]) -> BoundedCount:
        """Count the same, and stop at 10,000 if there are no counters; it says if it did."""
        return await self._run(self._actions.jobs.count(make_query(**conditions), LOOK_MAX))

    async def cancel(self, id: str | None = None, **conditions: Unpack[Conditions]) -> int:
        """Cancel one job, or every live job that meets the conditions; return how many."""
        return await self._run(self._cancel(id, conditions))

    async def retry(self, id: str, **choice: Unpack[RetryArguments]) -> State:
        """Run a failed or cancelled job again, under the same id; or run a waiting one now."""
        return await self._run_keyed(self._actions.jobs.retry(id, retry_choice(**choice)))

    async def edit(self, id: str, **edits: Unpack[Edits]) -> J:
        """Change the tags of a job; of a waiting one also its time, payload and priority."""
        edited: J = await self._run(self._actions.jobs.edit(id, edits))
        return edited

    async def edit_all(self, edits: ManyEdits, **conditions: Unpack[Conditions]) -> EditCount:
        """Edit every job that meets the conditions and may be edited so; a repeat is safe.

        Priority and time change in jobs that wait, tags in all. It counts the refusals by code.
        """
        return await self._run(self._actions.jobs.edit_all(make_query(**conditions), edits))

    async def why(self, id: str) -> list[Reason]:
        """Explain why a job is in its state."""
        return await self._run(self._actions.jobs.why(id))

    async def attempts(self, id: str) -> list[Attempt]:
        """Return every attempt of a job, oldest first."""
        return await self._run(self._actions.jobs.attempts(id))

    async def history(self, id: str) -> list[Change]:
        """Return the states that a job has been in, oldest first."""
        return await self._run(self._actions.jobs.history(id))


class DeadLetterList(Blocking):
    """The dead letters; ``aio.dead_letters`` has the same methods, awaited."""

    def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return self._run(self._actions.dead_letters.find(type, after, limit))

    def replay(self, id: str) -> JobHandle[Any]:
        """Replace a dead letter by a new job with its payload."""
        return self._handle(self._run_keyed(self._actions.dead_letters.replay(id)))

    def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many."""
        return self._run(self._actions.dead_letters.replay_all(type, limit))

    def discard(self, id: str) -> None:
        """Remove a dead letter from the list; its job is kept for its retention."""
        self._run(self._actions.dead_letters.discard(id))


class AsyncDeadLetterList(Awaited):
    """The awaited face of DeadLetterList."""

    async def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return await self._run(self._actions.dead_letters.find(type, after, limit))

    async def replay(self, id: str) -> AsyncJobHandle[Any]:
        """Replace a dead letter by a new job with its payload."""
        return self._handle(await self._run_keyed(self._actions.dead_letters.replay(id)))

    async def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many."""
        return await self._run(self._actions.dead_letters.replay_all(type, limit))

    async def discard(self, id: str) -> None:
        """Remove a dead letter from the list; its job is kept for its retention."""
        await self._run(self._actions.dead_letters.discard(id))
