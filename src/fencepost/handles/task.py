"""Handles on tasks: submit jobs, one or many, wait for results, pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from msgspec.structs import replace

from fencepost.actions.backend import Backend
from fencepost.actions.options import Options, UsingOptions, check_bulk, merge, new_job, new_jobs
from fencepost.actions.synonyms import method_instead
from fencepost.core.job.idempotency import OnDuplicate, check_key
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.task import Task
from fencepost.core.values.payload import check_size
from fencepost.core.values.times import Duration
from fencepost.errors import ConfigurationError, InvalidJobError
from fencepost.handles.job import AsyncJobHandle, Awaited, BackendPart, Blocking, JobHandle

if TYPE_CHECKING:
    from fencepost.actions.session import Session

P = ParamSpec("P")
R = TypeVar("R")

Arguments = tuple[Any, ...] | Mapping[str, Any] | Any
"""The arguments of one job in a bulk: a tuple, a mapping by name, or a lone value."""

WAITING = (
    "wait() would wait for ever: no worker can run the job before your transaction is committed; "
    "submit() it, commit, and then wait for the result of its handle"
)
PREPARED = "a prepared job has no transaction; give conn to app.submit_many(jobs, conn=…)"


class TaskReference(BackendPart):
    """What both faces hold, of an app and of a server."""

    def __init__(self, backend: Backend, type: str) -> None:
        super().__init__(backend)
        self._type = type

    @property
    def type(self) -> str:
        """The name under which the store knows the task."""
        return self._type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}>"

    if not TYPE_CHECKING:  # to a type checker, such a name is an error

        def __getattr__(self, name: str) -> Any:
            """Say what to write instead of a method of another queue."""
            known = None
            if not name.startswith("_"):  # while it is copied, it has no type yet
                known = method_instead(name, self._type, is_async=isinstance(self, Awaited))
            text = known or f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)


class TaskControl(TaskReference, Blocking):
    """What the handle on a task of an app and that of a server have in common."""

    def pause(self) -> None:
        """Let no more jobs of this type start; running ones go on."""
        self._run(self._actions.types.pause(self.type))

    def resume(self) -> None:
        """Let jobs of this type start again, in their old order."""
        self._run(self._actions.types.resume(self.type))


class AsyncTaskControl(TaskReference, Awaited):
    """The awaited face of TaskControl."""

    async def pause(self) -> None:
        """Let no more jobs of this type start; running ones go on."""
        await self._run(self._actions.types.pause(self.type))

    async def resume(self) -> None:
        """Let jobs of this type start again, in their old order."""
        await self._run(self._actions.types.resume(self.type))


class _AppTask(TaskReference):
    """What both faces of an app's task handle hold: the function and its options."""

    def __init__(self, session: Session, task: Task, options: Options) -> None:
        super().__init__(session, task.type)
        self._session = session
        self._task = task
        self._options = options

    def _merge(self, options: UsingOptions) -> Options:
        session = self._session
        return merge(
            self._options, options, session.timeouts, webhooks=session.webhooks, task=self.type
        )

    def _encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
        return check_size(self._task.signature.encode(args, kwargs), self._session.max_payload)

    def _prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options | None = None
    ) -> NewJob:
        return new_job(self._task, self._encode(args, kwargs), options or self._options)

    def _prepare_many(self, arguments: Iterable[Arguments]) -> list[NewJob]:
        payloads = map(self._encode_item, arguments)
        return check_bulk(list(new_jobs(self._task, payloads, self._options)))

    def _encode_item(self, item: Arguments) -> Body:
        if isinstance(item, tuple):
            return self._encode(item, {})
        if isinstance(item, Mapping):
            return self._encode((), dict(item))
        if isinstance(item, NewJob):
            raise InvalidJobError(
                f"{self.type}.submit_many takes the arguments of each job; give prepared jobs "
                f"to app.submit_many([{self.type}.prepare(…), …])"
            )
        return self._encode((item,), {})

    def _prepare_idempotent(
        self, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> NewJob:
        """Return a job whose key is held while it is live, and refuses a second one (C15)."""
        reject = OnDuplicate.REJECT
        options = replace(self._options, key=check_key(key), key_window=None, on_duplicate=reject)
        return self._prepare(args, kwargs, options)

    def _refuse_conn(self, why: str) -> None:
        if self._options.conn is not None:
            raise ConfigurationError(why)

    def _refuse_waiting(self) -> None:
        if self._session.joined(self._options.conn) is not None:
            raise ConfigurationError(WAITING)


class TaskHandle(_AppTask, TaskControl, Generic[P, R]):
    """A task of an app; ``aio`` has the same methods, awaited."""

    @property
    def aio(self) -> AsyncTaskHandle[P, R]:
        return AsyncTaskHandle(self._session, self._task, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, as if it were not a task."""
        return self._task.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Any:
        """The user's function itself."""
        return self._task.function

    def using(self, **options: Unpack[UsingOptions]) -> TaskHandle[P, R]:
        """Return this task with other options for its submissions.

        - ``delay``: start after this time; not with ``run_at``
        - ``run_at``: start at this time, an aware datetime
        - ``priority``: ``"critical"``, ``"high"``, ``"normal"``, ``"low"`` or ``"bulk"``
        - ``queue``: the queue of the job
        - ``key``: an idempotency key: one job per key
        - ``on_duplicate``: ``"return"`` the job that holds the key (the default), or ``"reject"``
        - ``key_window``: how long the key is held, or ``"active"``: until the job has ended
        - ``tags``: names and values to search by, added to those there are
        - ``correlation_id``: an id that logs, searches and traces share
        - ``callback_url``: where a webhook goes when the job has ended
        - ``concurrency_key``: jobs of this type with one key share a limit
        - ``timeout``: the longest that one attempt may run
        - ``lease_ttl``: how long a silent worker keeps the job
        - ``lifetime``: from the submission to the end at the latest
        - ``retry``: ``Retry(…)``: how often it is tried again, and when
        - ``after``: run when all of these jobs have completed: handles, ids, nodes of the flow
        - ``after_any``: run when any one of these has ended
        - ``accept_failures``: with ``after``: run when all have ended, whatever their states
        - ``conn``: a database connection whose transaction the job joins

        Durations are seconds, a timedelta, or text such as ``"90s"`` or ``"10m"``.
        """
        return TaskHandle(self._session, self._task, self._merge(options))

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a checked and encoded job, for ``app.submit_many``."""
        self._refuse_conn(PREPARED)
        return self._prepare(args, kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return self._submit(self._prepare(args, kwargs), self._options.conn)

    def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_waiting()
        job = cast("TaskHandle[..., R]", self).submit(*args, **kwargs)
        return job.result(timeout)

    def submit_idempotent(self, key: str, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a job unless one with this key is live; then raise DuplicateJobError."""
        return self._submit(self._prepare_idempotent(key, args, kwargs), self._options.conn)

    def wait_idempotent(
        self, key: str, *args: Any, timeout: Duration | None = None, **kwargs: Any
    ) -> R:
        """Submit unless a job with this key is live, and return the result."""
        self._refuse_waiting()
        job = cast("TaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return job.result(timeout)

    def submit_many(self, arguments: Iterable[Arguments]) -> list[JobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        return self._submit_all(self._prepare_many(arguments), self._options.conn)


class AsyncTaskHandle(_AppTask, AsyncTaskControl, Generic[P, R]):
    """The awaited face of TaskHandle."""

    def using(self, **options: Unpack[UsingOptions]) -> AsyncTaskHandle[P, R]:
        """Return this task with other options for its submissions, those of TaskHandle.using."""
        return AsyncTaskHandle(self._session, self._task, self._merge(options))

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a checked and encoded job, for ``app.aio.submit_many``."""
        self._refuse_conn(PREPARED)
        return self._prepare(args, kwargs)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJobHandle[R]:
        """Store a job and return its handle; when this returns, the job cannot be lost."""
        return await self._submit(self._prepare(args, kwargs), self._options.conn)

    async def wait(self, *args: Any, timeout: Duration | None = None, **kwargs: Any) -> R:
        """Submit a job and return its result."""
        self._refuse_waiting()
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
        self._refuse_waiting()
        job = await cast("AsyncTaskHandle[..., R]", self).submit_idempotent(key, *args, **kwargs)
        return await job.result(timeout)

    async def submit_many(self, arguments: Iterable[Arguments]) -> list[AsyncJobHandle[R]]:
        """Store many jobs, all or none, in one transaction."""
        return await self._submit_all(self._prepare_many(arguments), self._options.conn)
