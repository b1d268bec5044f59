"""The app: where tasks are declared and everything else is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from fencepost.app.dead_letters import AsyncDeadLetterList, DeadLetterList
from fencepost.app.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.app.jobs import AsyncJobs, Jobs
from fencepost.app.lanes import (
    AsyncQueues,
    AsyncTypes,
    AsyncWorkers,
    Queues,
    Types,
    Workers,
)
from fencepost.app.options import Options, retry_fields
from fencepost.app.session import Session, accepted
from fencepost.app.task import TaskHandle, async_handle, check_bulk, handle
from fencepost.clock import Clock, SystemClock
from fencepost.core.concurrency import KeyRule, check_rule, parse_max_running_per_key
from fencepost.core.duration import Duration
from fencepost.core.job import NewJob
from fencepost.core.limits import CONCURRENCY_DEFAULT, GRACE_DEFAULT, PAYLOAD_BYTES_DEFAULT
from fencepost.core.names import DEFAULT_QUEUE, check_queue, check_type
from fencepost.core.payload import parse_max_payload
from fencepost.core.policy import Policy
from fencepost.core.priority import Priority, parse_priority
from fencepost.core.retention import Retention
from fencepost.core.retry import Retry
from fencepost.core.shown import shown_url
from fencepost.core.signature import Signature
from fencepost.core.task import Task, isolation_of
from fencepost.core.timeouts import Timeouts, parse_lease_ttl, parse_lifetime
from fencepost.errors import ConfigurationError
from fencepost.store.protocol import Store
from fencepost.store.requests import Scope
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "sqlite:///fencepost.db"


class _Unannotated:
    """A type that no handler names: only a first parameter without a type accepts it.

    Else type checkers would take such a parameter for a Context, and hide it from callers.
    """


class TaskDecorator(Protocol):
    """Makes a function a task. A first parameter of type Context is not the caller's to give."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[_Unannotated, ...], Coroutine[Any, Any, R]]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Unannotated, ...], R]
    ) -> TaskHandle[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> TaskHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> TaskHandle[P, R]: ...


class App:
    """A store, the tasks that run on it, and the ways to look and to steer.

    Without a URL: ``FENCEPOST_URL``, else ``DATABASE_URL``, else ``sqlite:///fencepost.db``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "fencepost",
        timeouts: Timeouts | None = None,
        retry: Retry | None = None,
        max_payload: int = PAYLOAD_BYTES_DEFAULT,
        retention: Retention | None = None,
        clock: Clock | None = None,
        store: Store | None = None,
    ) -> None:
        self.name = name
        self.url = url or url_from_environment()
        self.timeouts = timeouts or Timeouts()
        self.retention = retention or Retention()
        self._default_retry = retry or Retry()
        self.session = Session(
            self.url,
            clock=clock or (store.clock if store is not None else SystemClock()),
            timeouts=self.timeouts,
            max_payload=parse_max_payload(max_payload),
            store=store,
        )
        self.jobs = Jobs(self.session)
        self.dead_letters = DeadLetterList(self.session)
        self.queues = Queues(self.session)
        self.types = Types(self.session)
        self.workers = Workers(self.session)

    @property
    def aio(self) -> AsyncApp:
        """The same names, awaited."""
        return AsyncApp(self)

    @property
    def store(self) -> Store:
        """The store, opened if need be."""
        return self.session.store

    # Declaring tasks.

    @overload
    def task(
        self, function: Callable[Concatenate[_Unannotated, ...], Coroutine[Any, Any, R]], /
    ) -> TaskHandle[..., R]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[_Unannotated, ...], R], /
    ) -> TaskHandle[..., R]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> TaskHandle[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> TaskHandle[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskHandle[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskHandle[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority | int | str = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease_ttl: Duration | None = None,
        lifetime: Duration | None = None,
        isolation: Literal["process", "thread", "loop"] | None = None,
        concurrency_key: KeyRule | None = None,
        max_running_per_key: int | None = None,
    ) -> TaskDecorator: ...

    def task(  # type: ignore[misc]  # mypy asks of keyword-only overload 7 what it does not say
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority | int | str = Priority.NORMAL,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease_ttl: Duration | None = None,
        lifetime: Duration | None = None,
        isolation: Literal["process", "thread", "loop"] | None = None,
        concurrency_key: KeyRule | None = None,
        max_running_per_key: int | None = None,
    ) -> Any:
        """Make a function a task: ``@app.task`` or ``@app.task(queue="mail", …)``."""
        timeouts = self.timeouts
        policy = Policy(
            **retry_fields(retry or self._default_retry),
            timeout=timeouts.execution_for(timeout),
            lifetime=timeouts.lifetime if lifetime is None else parse_lifetime(lifetime),
            lease_ttl=parse_lease_ttl(timeouts.lease_ttl if lease_ttl is None else lease_ttl),
            max_running_per_key=None
            if max_running_per_key is None
            else parse_max_running_per_key(max_running_per_key),
        )
        settings = (check_queue(queue), parse_priority(priority), policy)

        def decorate(decorated: Callable[..., Any]) -> TaskHandle[..., Any]:
            signature = Signature(decorated, Context)
            task = Task(
                type=check_type(decorated.__name__ if name is None else name),
                function=decorated,
                signature=signature,
                isolation=isolation_of(decorated, isolation),
                queue=settings[0],
                priority=settings[1],
                policy=settings[2],
                concurrency_key=None
                if concurrency_key is None
                else check_rule(concurrency_key, signature),
            )
            self._add(task)
            return TaskHandle(self.session, task, Options())

        return decorate if function is None else decorate(function)

    def _add(self, task: Task) -> None:
        known = self.session.tasks.get(task.type)
        if known is not None and _origin(known.function) != _origin(task.function):
            raise ConfigurationError(
                f"two tasks are called {task.type!r}: {_origin(known.function)} and "
                f"{_origin(task.function)}; give one of them a name: @app.task(name=…)"
            )
        self.session.tasks[task.type] = task

    # Submitting.

    def submit_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[JobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        checked = check_bulk(list(jobs))
        with naming_existing(self.session):
            replies = self.session.submit_all(checked, conn)
        return [handle(self.session, accepted(reply)) for reply in replies]

    # Working.

    def worker(
        self,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        *,
        concurrency: int = CONCURRENCY_DEFAULT,
        lease_ttl: Duration | None = None,
        grace: Duration = GRACE_DEFAULT,
        prefetch: int | None = None,
    ) -> Worker:
        """Return a worker for this app's tasks; ``run()`` blocks until it is stopped."""
        from fencepost.worker import Worker

        return Worker(
            self.store,
            self.session.tasks,
            counters=self.session.counters,
            retention=self.retention,
            queues=queues,
            concurrency=concurrency,
            lease_ttl=self.timeouts.lease_ttl if lease_ttl is None else lease_ttl,
            grace=grace,
            prefetch=prefetch,
        )

    # Operating.

    def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        self.store.run(self.store.limit(Scope.APP, "", max_running))

    def migrate(self) -> list[str]:
        """Bring the store's schema up to date; return what was applied."""
        return self.store.migrate()

    def close(self) -> None:
        """Let go of the store."""
        self.session.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<App {self.name} {shown_url(self.url)}>"


class AsyncApp:
    """The awaited face of App."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.jobs = AsyncJobs(app.session)
        self.dead_letters = AsyncDeadLetterList(app.session)
        self.queues = AsyncQueues(app.session)
        self.types = AsyncTypes(app.session)
        self.workers = AsyncWorkers(app.session)

    async def submit_many(
        self, jobs: Iterable[NewJob], *, conn: Any = None
    ) -> list[AsyncJobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        checked = check_bulk(list(jobs))
        session = self._app.session
        async with naming_existing_async(session):
            replies = await session.submit_all_async(checked, conn)
        return [async_handle(session, accepted(reply)) for reply in replies]

    async def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        store = self._app.store
        await store.run_async(store.limit(Scope.APP, "", max_running))

    async def migrate(self) -> list[str]:
        """Bring the store's schema up to date; return what was applied."""
        return self._app.store.migrate()

    async def close(self) -> None:
        """Let go of the store."""
        self._app.close()

    async def __aenter__(self) -> AsyncApp:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._app.close()


def url_from_environment() -> str:
    """Return the store URL that the environment names, or the default."""
    return os.environ.get("FENCEPOST_URL") or os.environ.get("DATABASE_URL") or DEFAULT_URL


def _origin(function: Callable[..., Any]) -> str:
    """Return where a function comes from; equal for a module that was loaded twice."""
    return f"{function.__module__.replace('__mp_main__', '__main__')}.{function.__qualname__}"
