"""Handles on tasks: submit jobs, one or many, wait for results, pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

import msgspec

from fencepost.actions.options import Options, UsingOptions, merge, new_job
from fencepost.actions.session import Session, accepted
from fencepost.core.bounds import BULK_MAX
from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.core.job.job import NewJob
from fencepost.core.job.task import Task
from fencepost.core.values.duration import Duration
from fencepost.core.values.payload import check_size
from fencepost.errors import ConfigurationError, InvalidJobError
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.store.interface.replies import Duplicate, EnqueueReply
from fencepost.store.interface.settings import Scope

P = ParamSpec("P")
R = TypeVar("R")

Arguments = tuple[Any, ...] | Mapping[str, Any] | Any
"""The arguments of one job in a bulk: a tuple, a mapping by name, or a lone value."""

WAITING = (
    "wait() would wait for ever: nobody can run the job before your transaction is committed; "
    "submit() it, commit, and then ask its handle for the result"
)
PREPARED = "a prepared job joins no transaction; give conn to app.submit_many(jobs, conn=…)"


class _Handle:
    """What both faces of a task handle hold."""

    def __init__(self, session: Session, task: Task, options: Options) -> None:
        self._session = session
        self._task = task
        self._options = options

    @property
    def type(self) -> str:
        """The name under which the store knows the task."""
        return self._task.type

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"


def check_bulk(jobs: list[NewJob]) -> list[NewJob]:
    """Return *jobs* if they are not too many for one transaction, and none chose its id (S1-2)."""
    if len(jobs) > BULK_MAX:
        raise InvalidJobError(
            f"submit at most {BULK_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(jobs):,}; split them"
        )
    if any(job.id is not None for job in jobs):
        raise InvalidJobError("a job is given its id when it is stored; leave NewJob.id alone")
    return jobs


def handle(session: Session, reply: EnqueueReply) -> JobHandle[Any]:
    """Return the handle of a job that was stored, or that a key returned."""
    is_duplicate = isinstance(reply, Duplicate)
    return JobHandle(session, reply.job_id, reply.type, reply.state, duplicate=is_duplicate)


def async_handle(session: Session, reply: EnqueueReply) -> AsyncJobHandle[Any]:
    """As ``handle``, for the async face."""
    is_duplicate = isinstance(reply, Duplicate)
    return AsyncJobHandle(session, reply.job_id, reply.type, reply.state, duplicate=is_duplicate)


class TaskHandle(_Handle, Generic[P, R]):
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
        with naming_existing(self._session):
            reply = self._session.submit(self._prepare(args, kwargs), self._options.conn)
        return cast("JobHandle[R]", handle(self._session, reply))

    def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_conn(WAITING)
        job = cast("TaskHandle[..., R]", self).submit(*args, **kwargs)
        return job.result(timeout)

    def submit_idempotent(self, key: str, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        with naming_existing(self._session):
            job = self._prepare_idempotent(key, args, kwargs)
            reply = self._session.submit(job, self._options.conn)
        return cast("JobHandle[R]", handle(self._session, reply))

    def wait_idempotent(
        self, key: str, *args: Any, timeout: Duration | None = None, **kwargs: Any
    ) -> R:
        """Submit unless a job with this key is live, and return the result."""
        self._refuse_conn(WAITING)
        job = cast("TaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return job.result(timeout)

    def submit_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        jobs = self._prepare_many(arguments)
        with naming_existing(self._session):
            replies = self._session.submit_all(jobs, self._options.conn)
        return cast("list[JobHandle[R]]", [handle(self._session, accepted(r)) for r in replies])

    def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        self._session.store.run(self._session.store.settings.pause(Scope.TYPE, self.type))

    def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        self._session.store.run(self._session.store.settings.resume(Scope.TYPE, self.type))


class AsyncTaskHandle(_Handle, Generic[P, R]):
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
        async with naming_existing_async(self._session):
            job = self._prepare(args, kwargs)
            reply = await self._session.submit_async(job, self._options.conn)
        return cast("AsyncJobHandle[R]", async_handle(self._session, reply))

    async def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_conn(WAITING)
        job = await cast("AsyncTaskHandle[..., R]", self).submit(*args, **kwargs)
        return await job.result(timeout)

    async def submit_idempotent(
        self, key: str, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJobHandle[R]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        async with naming_existing_async(self._session):
            job = self._prepare_idempotent(key, args, kwargs)
            reply = await self._session.submit_async(job, self._options.conn)
        return cast("AsyncJobHandle[R]", async_handle(self._session, reply))

    async def wait_idempotent(
        self, key: str, *args: Any, timeout: Duration | None = None, **kwargs: Any
    ) -> R:
        """Submit unless a job with this key is live, and return the result."""
        self._refuse_conn(WAITING)
        job = await cast("AsyncTaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return await job.result(timeout)

    async def submit_many(self, arguments: Iterable[Arguments]) -> list[AsyncJobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        jobs = self._prepare_many(arguments)
        async with naming_existing_async(self._session):
            replies = await self._session.submit_all_async(jobs, self._options.conn)
        return [
            cast("AsyncJobHandle[R]", async_handle(self._session, accepted(r))) for r in replies
        ]

    async def pause(self) -> None:
        """Hand out no more jobs of this type; those running go on."""
        await self._session.store.run_async(
            self._session.store.settings.pause(Scope.TYPE, self.type)
        )

    async def resume(self) -> None:
        """Hand out the jobs of this type again, in their old order."""
        await self._session.store.run_async(
            self._session.store.settings.resume(Scope.TYPE, self.type)
        )
