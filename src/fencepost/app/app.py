"""The app: where tasks are declared and everything else is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast, overload

from fencepost.actions.options import Options, retry_fields
from fencepost.actions.session import accepted
from fencepost.actions.stats import stats
from fencepost.actions.tracing import TracingMode, open_session
from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    GRACE_DEFAULT,
    PAYLOAD_BYTES_DEFAULT,
    STATS_WINDOW_DEFAULT,
)
from fencepost.core.crypto.keyring import KeyRing, Keys, parse_keys
from fencepost.core.crypto.plain import REFUSE, Plain, parse_plain
from fencepost.core.display import shown_url
from fencepost.core.events import check_pattern
from fencepost.core.flows.graph import Graph, Nodes
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Policy
from fencepost.core.job.priority import Priority, parse_priority
from fencepost.core.job.retry import Retry
from fencepost.core.job.task import Task, isolation_of
from fencepost.core.job.timeouts import Timeouts, parse_lease_ttl, parse_lifetime
from fencepost.core.limits.concurrency import KeyRule, check_rule, parse_max_running_per_key
from fencepost.core.limits.rates import parse_rate
from fencepost.core.retention import Retention, check_retention
from fencepost.core.stats.recent import Statistics
from fencepost.core.values.duration import Duration
from fencepost.core.values.names import DEFAULT_QUEUE, check_own_type, check_queue
from fencepost.core.values.payload import parse_max_payload
from fencepost.core.values.signature import Signature
from fencepost.core.webhooks.settings import VARIABLE, Webhooks, parse_variable
from fencepost.delivery import delivery_task
from fencepost.errors import ConfigurationError
from fencepost.handles.audit import AsyncAudit, Audit
from fencepost.handles.crons import AsyncCrons, CronOptions, Crons, declare
from fencepost.handles.dead_letters import AsyncDeadLetterList, DeadLetterList
from fencepost.handles.decorators import CronDecorator, TaskDecorator, Unannotated
from fencepost.handles.event import EventHandle
from fencepost.handles.events import AsyncEvents, Events
from fencepost.handles.flows import AsyncFlow, AsyncFlows, Flow, Flows, prepare
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.jobs import AsyncJobs, Jobs
from fencepost.handles.queues import (
    AsyncQueues,
    AsyncTypes,
    AsyncWorkers,
    Queues,
    Types,
    Workers,
)
from fencepost.handles.task import TaskHandle, async_handle, check_bulk, handle
from fencepost.handles.tokens import AsyncTokens, Tokens
from fencepost.store.environment import url_from_environment
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store
from fencepost.worker import Context

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from starlette.applications import Starlette

    from fencepost.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """A store, the tasks that run on it, and the ways to look and to steer.

    Without a URL: ``FENCEPOST_URL``, else a PostgreSQL ``DATABASE_URL``, else
    ``sqlite:///fencepost.db``.
    With keys, or ``FENCEPOST_KEYS``, what users put into jobs is stored encrypted, and what is not
    is refused; *plain*, or ``FENCEPOST_PLAIN``, may accept it until a day. With *tracing*, or
    ``FENCEPOST_TRACING``, submissions and attempts are OpenTelemetry spans.
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
        webhooks: Webhooks | None = None,
        keys: Keys | None = None,
        plain: str | Plain | None = None,
        tracing: bool | TracingMode | None = None,
        clock: Clock | None = None,
        store: Store | None = None,
    ) -> None:
        self.name = name
        self.url = url or url_from_environment()
        self.timeouts = timeouts or Timeouts()
        self.retention = retention or Retention()
        self._default_retry = retry or Retry()
        clock = clock or (store.clock if store is not None else SystemClock())
        ring = keys_from_environment() if keys is None else parse_keys(keys)
        self.session = open_session(
            tracing,
            self.url,
            clock=clock,
            timeouts=self.timeouts,
            max_payload=parse_max_payload(max_payload),
            store=store,
            webhooks=webhooks or parse_variable(os.environ.get(VARIABLE)),
            keys=ring,
            plain=_plain(plain, ring, clock),
            policy=Policy(
                **retry_fields(self._default_retry),
                timeout=self.timeouts.execution,
                lifetime=self.timeouts.lifetime,
                lease_ttl=self.timeouts.lease_ttl,
            ),
        )
        if self.session.webhooks is not None:
            self._add(delivery_task(self.session.webhooks, lambda: self.session.store))
        self.jobs = Jobs(self.session)
        self.flows = Flows(self.session)
        self.dead_letters = DeadLetterList(self.session)
        self.events = Events(self.session)
        self.queues = Queues(self.session)
        self.types = Types(self.session)
        self.workers = Workers(self.session)
        self.crons = Crons(self.session)
        self.tokens = Tokens(self.session)
        self.audit = Audit(self.session)

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
        self, function: Callable[Concatenate[Unannotated, ...], Coroutine[Any, Any, R]], /
    ) -> TaskHandle[..., R]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[Unannotated, ...], R], /
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
        retention: Retention | None = None,
        rate: str | None = None,
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
        retention: Retention | None = None,
        rate: str | None = None,
        event: str | None = None,  # given by EventHandle.on alone
        concurrency_key: KeyRule | None = None,
        max_running_per_key: int | None = None,
    ) -> Any:
        """Make a function a task: ``@app.task`` or ``@app.task(queue="mail", …)``.

        With *rate*, such as ``"100/m"``, at most so many of its jobs start in any such time.
        """
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
        own = None if retention is None else check_retention(retention)
        parsed_rate = None if rate is None else parse_rate(rate)

        def decorate(decorated: Callable[..., Any]) -> TaskHandle[..., Any]:
            signature = Signature(decorated, Context)
            task = Task(
                type=check_own_type(decorated.__name__ if name is None else name),
                function=decorated,
                signature=signature,
                isolation=isolation_of(decorated, isolation),
                queue=settings[0],
                priority=settings[1],
                policy=settings[2],
                retention=own,
                rate=parsed_rate,
                event=event,
                concurrency_key=None
                if concurrency_key is None
                else check_rule(concurrency_key, signature),
                backoff=(retry or self._default_retry).function,
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
        if known is not None and known.event != task.event:
            # The second would take the place of the first, and its events would find no handler.
            raise ConfigurationError(
                f"{task.type!r} handles {known.event or 'no event'} already and cannot handle "
                f"{task.event or 'none'} too; give one of the two a name: @event.on(name=…)"
            )
        self.session.tasks[task.type] = task

    # Events and crons.

    def event(self, pattern: str) -> EventHandle:
        """Return a handle on the event of this name, or on all that a pattern means.

        ``@app.event("user.*").on`` adds a handler; ``app.event("user.created").send(…)`` sends.
        """
        return EventHandle(self.session, check_pattern(pattern), self.task)

    def cron(
        self,
        expr: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Literal["latest", "skip", "catch_up"] = "latest",
        catch_up: int | None = None,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> CronDecorator:
        """Submit a task by the clock: ``@app.cron("0 9 * * 1-5", tz="Europe/Berlin")``.

        Over a task or a plain function, which it makes one. Each tick makes one job, however many
        workers run. *missed* decides about ticks that came while no worker did.
        """
        options = CronOptions(
            expression=expr,
            tz=tz,
            missed=missed,
            catch_up=catch_up,
            name=name,
            arguments=arguments,
        )

        def decorate(decorated: Any) -> TaskHandle[..., Any]:
            task = decorated if isinstance(decorated, TaskHandle) else self.task(decorated)
            declare(self.session, options, task)
            return task

        return cast("CronDecorator", decorate)

    # Submitting.

    def submit_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[JobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        checked = check_bulk(list(jobs))
        with naming_existing(self.session):
            replies = self.session.submit_all(checked, conn)
        return [handle(self.session, accepted(reply)) for reply in replies]

    def flow(self, nodes: Nodes | Graph) -> Flow:
        """Return jobs that wait for each other, ready to be submitted together.

        Give prepared jobs by name, or what ``chain``, ``fan_out`` and ``fan_in`` return. Raises
        DependencyError for what could never run.
        """
        return Flow(self.session, prepare(nodes))

    # Working.

    def worker(
        self,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        *,
        concurrency: int = CONCURRENCY_DEFAULT,
        lease_ttl: Duration | None = None,
        grace: Duration = GRACE_DEFAULT,
        prefetch: int = 0,
    ) -> Worker:
        """Return a worker for this app's tasks; ``run()`` blocks until it is stopped."""
        from fencepost.worker import Worker

        return Worker(
            self.store,
            self.session.tasks,
            crons=self.session.crons,
            counters=self.session.counters,
            tracing=self.session.tracing,
            retention=self.full_retention,
            queues=queues,
            concurrency=concurrency,
            lease_ttl=self.timeouts.lease_ttl if lease_ttl is None else lease_ttl,
            grace=grace,
            prefetch=prefetch,
        )

    @property
    def full_retention(self) -> Retention:
        """How long everything is kept, with what single tasks say of theirs."""
        tasks = self.session.tasks.values()
        own = {task.type: task.retention for task in tasks if task.retention is not None}
        return self.retention.with_types(own)

    # Serving.

    def asgi(self) -> Starlette:
        """Return the HTTP API of this app, to be mounted in any ASGI application or served.

        Whoever asks needs a token, see ``fencepost tokens``.
        """
        from fencepost.http import asgi

        return asgi(self)

    # Operating.

    def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        self.store.run(self.store.settings.limit(Scope.APP, "", max_running))

    def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return self.session.run(stats(self.session, window))

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
        self.flows = AsyncFlows(app.session)
        self.dead_letters = AsyncDeadLetterList(app.session)
        self.events = AsyncEvents(app.session)
        self.queues = AsyncQueues(app.session)
        self.types = AsyncTypes(app.session)
        self.workers = AsyncWorkers(app.session)
        self.crons = AsyncCrons(app.session)
        self.tokens = AsyncTokens(app.session)
        self.audit = AsyncAudit(app.session)

    async def submit_many(
        self, jobs: Iterable[NewJob], *, conn: Any = None
    ) -> list[AsyncJobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        checked = check_bulk(list(jobs))
        session = self._app.session
        async with naming_existing_async(session):
            replies = await session.submit_all_async(checked, conn)
        return [async_handle(session, accepted(reply)) for reply in replies]

    def flow(self, nodes: Nodes | Graph) -> AsyncFlow:
        """Return jobs that wait for each other, ready to be submitted together.

        Give prepared jobs by name, or what ``chain``, ``fan_out`` and ``fan_in`` return. Raises
        DependencyError for what could never run.
        """
        return AsyncFlow(self._app.session, prepare(nodes))

    async def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        store = self._app.store
        await store.run_async(store.settings.limit(Scope.APP, "", max_running))

    async def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return await self._app.session.run_async(stats(self._app.session, window))

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


def keys_from_environment() -> KeyRing | None:
    """Return the encryption keys that the environment names, if it names any."""
    text = os.environ.get("FENCEPOST_KEYS")
    return parse_keys(text) if text else None


def _plain(given: str | Plain | None, ring: KeyRing | None, clock: Clock) -> Plain:
    """Return what becomes of content that is not encrypted; without keys, nothing is refused."""
    if given is not None and ring is None:
        raise ConfigurationError(
            "plain= says what becomes of unencrypted content where there are keys, and there are "
            "none; give keys= or FENCEPOST_KEYS"
        )
    if given is None:
        given = os.environ.get("FENCEPOST_PLAIN") or REFUSE
    return parse_plain(given, clock.now())


def _origin(function: Callable[..., Any]) -> str:
    """Return where a function comes from; equal for a module that was loaded twice."""
    return f"{function.__module__.replace('__mp_main__', '__main__')}.{function.__qualname__}"
