"""A handle on one job, and the two faces of everything that hangs on an app or a client."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack, cast

from fencepost.actions.backend import Backend, CallerActions, Script
from fencepost.actions.options import JobReference, RetryArguments, retry_choice
from fencepost.actions.replies import KnownJob
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Job, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Reason
from fencepost.core.values.times import Duration
from fencepost.errors import DuplicateJobError, StateConflictError

R = TypeVar("R")
T = TypeVar("T")


class BackendPart:
    """Holds a backend; a face says how its actions are run."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def _actions(self) -> CallerActions:
        return self._backend.actions

    def _handle(self, job: KnownJob) -> Any:
        """Return a handle on *job*, of the same face."""
        raise NotImplementedError

    def _keyed(self, script: Script[T]) -> Script[T]:
        """Run a script that may find its key held by another job."""
        try:
            return (yield from script)
        except DuplicateJobError as error:
            yield from self._name_existing(error)
            raise

    def _name_existing(self, error: DuplicateJobError) -> Script[None]:
        """Add a handle on the job that holds the key to *error* (C15)."""
        if error.existing_id is not None:
            job = yield from self._actions.jobs.existing(error)
            if job is not None:
                error.existing = held = self._handle(job)
                held.duplicate = True


class Blocking(BackendPart):
    """The blocking face: each method of a subclass runs one script."""

    def _run(self, script: Script[T]) -> T:
        return self._backend.run(script)

    def _run_keyed(self, script: Script[T]) -> T:
        return self._backend.run(self._keyed(script))

    def _handle(self, job: KnownJob) -> JobHandle[Any]:
        return JobHandle(self._backend, job)

    def _submit(self, job: Any, conn: Any = None) -> JobHandle[Any]:
        try:
            return self._handle(self._backend.submit(job, conn))
        except DuplicateJobError as error:
            self._run(self._name_existing(error))
            raise

    def _submit_all(self, jobs: list[Any], conn: Any = None) -> list[JobHandle[Any]]:
        stored = self._run_keyed(self._backend.submit_all(jobs, conn))
        return [self._handle(job) for job in stored]


class Awaited(BackendPart):
    """The awaited face: the same, without blocking the event loop."""

    async def _run(self, script: Script[T]) -> T:
        return await self._backend.run_async(script)

    async def _run_keyed(self, script: Script[T]) -> T:
        return await self._backend.run_async(self._keyed(script))

    def _handle(self, job: KnownJob) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(self._backend, job)

    async def _submit(self, job: Any, conn: Any = None) -> AsyncJobHandle[Any]:
        try:
            return self._handle(await self._backend.submit_async(job, conn))
        except DuplicateJobError as error:
            await self._run(self._name_existing(error))
            raise

    async def _submit_all(self, jobs: list[Any], conn: Any = None) -> list[AsyncJobHandle[Any]]:
        stored = await self._run_keyed(self._backend.submit_all(jobs, conn))
        return [self._handle(job) for job in stored]


class _JobHandle(BackendPart, JobReference):
    """What both faces of a handle hold."""

    def __init__(self, backend: Backend, job: KnownJob) -> None:
        self._backend = backend
        self.id = job.id
        self.type = job.type
        self.state: State = job.state
        """The state when last looked at; ``refresh()`` looks again."""
        self.duplicate: bool = getattr(job, "duplicate", False)
        """True when the submission's key returned this existing job."""
        differs = getattr(job, "differs", ())
        self.differs: tuple[str, ...] | None = None if differs is None else tuple(differs or ())
        """Of a duplicate: where its payload differs from the one submitted, such as ``$.subject``.

        None if the payload cannot be compared here.
        """
        self._job: Job | None = job if isinstance(job, Job) else getattr(job, "_job", None)
        """All of the job when last read; not what a handle that only waits has read."""

    @property
    def payload(self) -> Any:
        """The payload as plain Python values, see ``Job.payload``.

        This and what follows is as the handle has last read it, like ``state``.
        """
        return self._read().payload

    @property
    def progress(self) -> Progress | None:
        """How far the handler says it has come: a fraction from 0 to 1, and a message."""
        return self._read().progress

    def to_dict(self) -> dict[str, Any]:
        """Return the whole job, ready to be written as JSON, see ``Job.to_dict``."""
        return self._read().to_dict()

    def to_json(self) -> str:
        """Return the whole job as JSON, see ``Job.to_json``."""
        return self._read().to_json()

    def _read(self) -> Job:
        if self._job is None:
            raise StateConflictError(
                f"this handle has not read job {self.id} as it is now; await job.refresh() first",
                job_id=self.id,
                state=self.state,
            )
        return self._job

    def _seen(self, job: Job) -> Job:
        self.state, self._job = job.state, job
        return job

    def _moved(self, state: State) -> None:
        """Note a new state; what was read before is out of date."""
        self.state, self._job = state, None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type} {self.state}>"


class JobHandle(_JobHandle, Blocking, Generic[R]):
    """One job; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncJobHandle[R]:
        return AsyncJobHandle(self._backend, self)

    def _read(self) -> Job:
        return self._job or self.refresh()

    def refresh(self) -> Job:
        """Read the job again and return all of it."""
        return self._seen(self._run(self._actions.jobs.get(self.id)))

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result; raise JobFailedError, JobCancelledError or WaitTimeoutError."""
        value, job = self._run(self._actions.jobs.result(self.id, timeout))
        self._moved(job.state)
        return cast(R, value)

    def cancel(self) -> None:
        """Cancel the job in any live state; raise StateConflictError if it has ended."""
        self._moved(self._run(self._actions.jobs.cancel(self.id)))

    def retry(self, **choice: Unpack[RetryArguments]) -> None:
        """Run a failed or cancelled job again, under the same id; or run a waiting one now.

        A job that is delayed, or waits for its next attempt, becomes due after *delay* (C45).
        """
        script = self._actions.jobs.retry(self.id, retry_choice(**choice))
        self._moved(self._run_keyed(script))

    def why(self) -> list[Reason]:
        """Explain why the job is in its state."""
        return self._run(self._actions.jobs.why(self.id))

    def attempts(self) -> list[Attempt]:
        """Return every attempt, oldest first."""
        return self._run(self._actions.jobs.attempts(self.id))

    def history(self) -> list[Change]:
        """Return the states that the job has been in, oldest first."""
        return self._run(self._actions.jobs.history(self.id))


class AsyncJobHandle(_JobHandle, Awaited, Generic[R]):
    """The awaited face of JobHandle."""

    async def refresh(self) -> Job:
        """Read the job again and return all of it."""
        return self._seen(await self._run(self._actions.jobs.get(self.id)))

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result; raise JobFailedError, JobCancelledError or WaitTimeoutError."""
        value, job = await self._run(self._actions.jobs.result(self.id, timeout))
        self._moved(job.state)
        return cast(R, value)

    async def cancel(self) -> None:
        """Cancel the job in any live state; raise StateConflictError if it has ended."""
        self._moved(await self._run(self._actions.jobs.cancel(self.id)))

    async def retry(self, **choice: Unpack[RetryArguments]) -> None:
        """Run a failed or cancelled job again, under the same id; or run a waiting one now."""
        self._moved(
            await self._run_keyed(self._actions.jobs.retry(self.id, retry_choice(**choice)))
        )

    async def why(self) -> list[Reason]:
        """Explain why the job is in its state."""
        return await self._run(self._actions.jobs.why(self.id))

    async def attempts(self) -> list[Attempt]:
        """Return every attempt, oldest first."""
        return await self._run(self._actions.jobs.attempts(self.id))

    async def history(self) -> list[Change]:
        """Return the states that the job has been in, oldest first."""
        return await self._run(self._actions.jobs.history(self.id))

    def __await__(self) -> Any:
        """``await handle`` waits for the result."""
        return self.result().__await__()
