"""A handle on one job: look at it, wait for it, steer it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, cast

from fencepost.actions import jobs as scripts
from fencepost.actions.dependencies import JobReference
from fencepost.actions.session import Session
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import Duration
from fencepost.errors import DuplicateJobError

R = TypeVar("R")


class _Handle(JobReference):
    """What both faces of a handle hold."""

    def __init__(
        self, session: Session, job_id: str, type: str, state: State, *, duplicate: bool = False
    ) -> None:
        self._session = session
        self.id = job_id
        self.type = type
        self.state = state
        """The state when last looked at; ``refresh()`` looks again."""
        self.duplicate = duplicate
        """True when the submission's key returned this existing job."""

    def _seen(self, job: Job) -> Job:
        self.state = job.state
        return job

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type} {self.state}>"


class JobHandle(_Handle, Generic[R]):
    """One job; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncJobHandle[R]:
        return AsyncJobHandle(
            self._session, self.id, self.type, self.state, duplicate=self.duplicate
        )

    def refresh(self) -> Job:
        """Look at the job again and return all there is to see."""
        return self._seen(self._session.run(scripts.get(self._session, self.id)))

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result; raise JobFailedError, JobCancelledError or WaitTimeoutError."""
        value, job = self._session.run(scripts.result(self._session, self.id, timeout))
        self._seen(job)
        return cast(R, value)

    def cancel(self) -> None:
        """Cancel the job in whatever live state it is; raise StateConflictError if it has ended."""
        self.state = self._session.run(scripts.cancel(self._session, self.id))

    def retry(
        self,
        *,
        reset_attempts: bool = True,
        delay: Duration = 0,
        priority: Priority | int | str | None = None,
    ) -> None:
        """Run a failed or cancelled job again, under the same id; or one that waits, now.

        One that is delayed, or waits for its next attempt, is due after *delay* instead (C45).
        """
        with naming_existing(self._session):
            self.state = self._session.run(
                scripts.retry(self._session, self.id, reset_attempts, delay, priority)
            )

    def why(self) -> list[Reason]:
        """Say in words why the job is where it is."""
        return self._session.run(scripts.why(self._session, self.id))

    def attempts(self) -> list[Attempt]:
        """Return every attempt, oldest first."""
        return self._session.run(scripts.attempts(self._session, self.id))

    def history(self) -> list[Change]:
        """Return the states that the job has been in, oldest first."""
        return self._session.run(scripts.history(self._session, self.id))


class AsyncJobHandle(_Handle, Generic[R]):
    """The awaited face of JobHandle."""

    async def refresh(self) -> Job:
        """Look at the job again and return all there is to see."""
        return self._seen(await self._session.run_async(scripts.get(self._session, self.id)))

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result; raise JobFailedError, JobCancelledError or WaitTimeoutError."""
        value, job = await self._session.run_async(scripts.result(self._session, self.id, timeout))
        self._seen(job)
        return cast(R, value)

    async def cancel(self) -> None:
        """Cancel the job in whatever live state it is; raise StateConflictError if it has ended."""
        self.state = await self._session.run_async(scripts.cancel(self._session, self.id))

    async def retry(
        self,
        *,
        reset_attempts: bool = True,
        delay: Duration = 0,
        priority: Priority | int | str | None = None,
    ) -> None:
        """Run a failed or cancelled job again, under the same id; or one that waits, now.

        One that is delayed, or waits for its next attempt, is due after *delay* instead (C45).
        """
        async with naming_existing_async(self._session):
            self.state = await self._session.run_async(
                scripts.retry(self._session, self.id, reset_attempts, delay, priority)
            )

    async def why(self) -> list[Reason]:
        """Say in words why the job is where it is."""
        return await self._session.run_async(scripts.why(self._session, self.id))

    async def attempts(self) -> list[Attempt]:
        """Return every attempt, oldest first."""
        return await self._session.run_async(scripts.attempts(self._session, self.id))

    async def history(self) -> list[Change]:
        """Return the states that the job has been in, oldest first."""
        return await self._session.run_async(scripts.history(self._session, self.id))

    def __await__(self) -> Any:
        """``await handle`` waits for the result."""
        return self.result().__await__()


@contextmanager
def naming_existing(session: Session) -> Iterator[None]:
    """Give a DuplicateJobError that passes a handle on the job that holds the key (C15)."""
    try:
        yield
    except DuplicateJobError as error:
        if error.existing_id is None:
            raise
        (job,) = session.store.run(session.store.reader.get([error.existing_id]))
        if job is not None:
            error.existing = JobHandle(session, job.id, job.type, job.state, duplicate=True)
        raise


@asynccontextmanager
async def naming_existing_async(session: Session) -> AsyncIterator[None]:
    """As ``naming_existing``, for the async face."""
    try:
        yield
    except DuplicateJobError as error:
        if error.existing_id is None:
            raise
        (job,) = await session.store.run_async(session.store.reader.get([error.existing_id]))
        if job is not None:
            error.existing = AsyncJobHandle(session, job.id, job.type, job.state, duplicate=True)
        raise
