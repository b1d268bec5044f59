"""``jobs`` and ``dead_letters`` of an app or a client: find jobs, change and replay them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack

from fencepost.actions.backend import Script
from fencepost.actions.options import RetryArguments, retry_choice
from fencepost.actions.replies import DeadLetters, Page
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import Conditions, make_filter
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import Edits, State
from fencepost.core.job.why import Reason
from fencepost.handles.job import AsyncJobHandle, Awaited, BackendPart, Blocking, JobHandle

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
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first."""
        return self._run(self._actions.jobs.find(make_filter(**conditions), after, limit))

    def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue it is cheap."""
        return self._run(self._actions.jobs.count(make_filter(**conditions)))

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
        **conditions: Unpack[Conditions],
    ) -> Page[J]:
        """Return a page of the jobs that meet every condition, newest first."""
        return await self._run(self._actions.jobs.find(make_filter(**conditions), after, limit))

    async def count(self, **conditions: Unpack[Conditions]) -> int:
        """Count the jobs that meet every condition; by state, type and queue it is cheap."""
        return await self._run(self._actions.jobs.count(make_filter(**conditions)))

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
