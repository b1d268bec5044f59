"""Handles on tasks: submit jobs, one or many, wait for results, pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

import msgspec

from fencepost.actions.backend import Backend
from fencepost.actions.options import Options, UsingOptions, check_bulk, merge, new_job
from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.core.job.job import NewJob
from fencepost.core.job.task import Task
from fencepost.core.values.duration import Duration
from fencepost.core.values.payload import check_size
from fencepost.errors import ConfigurationError
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)

if TYPE_CHECKING:
    from fencepost.actions.session import Session

P = ParamSpec("P")
R = TypeVar("R")

Arguments = tuple[Any, ...] | Mapping[str, Any] | Any
"""The arguments of one job in a bulk: a tuple, a mapping by name, or a lone value."""

WAITING = (
    "wait() would wait for ever: nobody can run the job before your transaction is committed; "
    "submit() it, commit, and then ask its handle for the result"
)
PREPARED = "a prepared job joins no transaction; give conn to app.submit_many(jobs, conn=…)"


class TaskReference:
    """What both faces hold, of an app and of a server."""

    def __init__(self, backend: Backend, type: str) -> None:
        self._backend = backend
        self._type = type

    @property
    def type(self) -> str:
        """The name under which the store knows the task."""
        return self._type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


class TaskSubmitter(TaskReference):
    """What the handle on a task of an app and that of a server have in common."""

    def _submit(self, job: Any, conn: Any = None) -> JobHandle[Any]:
        with naming_existing(self._backend):
            return handle(self._backend, self._backend.submit(job, conn))

    def _submit_all(self, jobs: list[Any], conn: Any = None) -> list[JobHandle[Any]]:
        with naming_existing(self._backend):
            stored = self._backend.run(self._backend.submit_all(jobs, conn))
        return [handle(self._backend, job) for job in stored]

    def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        self._backend.run(self._backend.actions.types.pause(self.type))

    def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        self._backend.run(self._backend.actions.types.resume(self.type))


class AsyncTaskSubmitter(TaskReference):
    """The awaited face of TaskSubmitter."""

    async def _submit(self, job: Any, conn: Any = None) -> AsyncJobHandle[Any]:
        async with naming_existing_async(self._backend):
            return async_handle(self._backend, await self._backend.submit_async(job, conn))

    async def _submit_all(self, jobs: list[Any], conn: Any = None) -> list[AsyncJobHandle[Any]]:
        async with naming_existing_async(self._backend):
            stored = await self._backend.run_async(self._backend.submit_all(jobs, conn))
        return [async_handle(self._backend, job) for job in stored]

    async def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        await self._backend.run_async(self._backend.actions.types.pause(self.type))

    async def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        await self._backend.run_async(self._backend.actions.types.resume(self.type))


class _AppTask(TaskReference):
    """What both faces of an app's task handle hold: the function and its options."""

    def __init__(self, session: Session, task: Task, options: Options) -> None:
        super().__init__(session, task.type)
        self._session = session
        self._task = task
        self._options = options

    def _merge(self, options: UsingOptions) -> Options:
        session = self._session
        return merge(self._options, options, session.timeouts, webhooks=session.webhooks)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        payload = check_size(self._task.signature.encode(args, kwargs), self._session.max_payload)
        return new_job(self._task, payload, self._options)

    def _prepare_many(self, arguments: Iterable[Arguments]) -> list[NewJob]:
        jobs = []
        for item in arguments:
            if isinstance(item, tuple):
                jobs.append(self._prepare(item, {}))
            elif isinstance(item, Mapping):
                jobs.append(self._prepare((), dict(item)))
            else:
                jobs.append(self._prepare((item,), {}))
        return check_bulk(jobs)

    def _prepare_idempotent(
        self, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> NewJob:
        """Return a job whose key is held while it is live and refuses a second one (C15)."""
        options = msgspec.structs.replace(
            self._options,
            key=check_key(key),
            key_window=None,
            on_duplicate=OnDuplicate.REJECT,
        )
        payload = check_size(self._task.signature.encode(args, kwargs), self._session.max_payload)
        return new_job(self._task, payload, options)

    def _refuse_conn(self, why: str) -> None:
        if self._options.conn is not None:
            raise ConfigurationError(why)


class TaskHandle(_AppTask, TaskSubmitter, Generic[P, R]):
    """A task of an app; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncTaskHandle[P, R]:
        return AsyncTaskHandle(self._session, self._task, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now, as if it were not a task."""
        return self._task.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Any:
        """The user's function itself."""
        return self._task.function

    def using(self, **options: Unpack[UsingOptions]) -> TaskHandle[P, R]:
        """Return this task with other options for what is submitted through it."""
        merged = self._merge(options)
        return TaskHandle(self._session, self._task, merged)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a checked and encoded job, for ``app.submit_many``."""
        self._refuse_conn(PREPARED)
        return self._prepare(args, kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return self._submit(self._prepare(args, kwargs), self._options.conn)

    def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_conn(WAITING)
        job = cast("TaskHandle[..., R]", self).submit(*args, **kwargs)
        return job.result(timeout)

    def submit_idempotent(self, key: str, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        return self._submit(self._prepare_idempotent(key, args, kwargs), self._options.conn)

    def wait_idempotent(
        self, key: str, *args: Any, timeout: Duration | None = None, **kwargs: Any
    ) -> R:
        """Submit unless a job with this key is live, and return the result."""
        self._refuse_conn(WAITING)
        job = cast("TaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return job.result(timeout)

    def submit_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        return self._submit_all(self._prepare_many(arguments), self._options.conn)


class AsyncTaskHandle(_AppTask, AsyncTaskSubmitter, Generic[P, R]):
    """The awaited face of TaskHandle."""

    def using(self, **options: Unpack[UsingOptions]) -> AsyncTaskHandle[P, R]:
        """Return this task with other options for what is submitted through it."""
        merged = self._merge(options)
        return AsyncTaskHandle(self._session, self._task, merged)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a checked and encoded job, for ``app.aio.submit_many``."""
        self._refuse_conn(PREPARED)
        return self._prepare(args, kwargs)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJobHandle[R]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return await self._submit(self._prepare(args, kwargs), self._options.conn)

    async def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_conn(WAITING)
        job = await cast("AsyncTaskHandle[..., R]", self).submit(*args, **kwargs)
        return await job.result(timeout)

    async def submit_idempotent(
        self, key: str, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJobHandle[R]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        job = self._prepare_idempotent(key, args, kwargs)
        return await self._submit(job, self._options.conn)

    async def wait_idempotent(
        self, key: str, *args: Any, timeout: Duration | None = None, **kwargs: Any
    ) -> R:
        """Submit unless a job with this key is live, and return the result."""
        self._refuse_conn(WAITING)
        job = await cast("AsyncTaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return await job.result(timeout)

    async def submit_many(self, arguments: Iterable[Arguments]) -> list[AsyncJobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        return await self._submit_all(self._prepare_many(arguments), self._options.conn)
