"""The app: its settings, and everything that hangs on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from fencepost.actions.local.crons import declare, keywords
from fencepost.actions.local.flows import prepare
from fencepost.actions.options import check_bulk, retry_fields
from fencepost.actions.session import TracingMode, open_session
from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import CONCURRENCY_DEFAULT, GRACE_DEFAULT, PAYLOAD_BYTES_DEFAULT
from fencepost.core.display import shown_url
from fencepost.core.encryption import REFUSE, KeyRing, Keys, Plain, parse_keys, parse_plain
from fencepost.core.events import check_pattern
from fencepost.core.flows.graph import Graph, Nodes
from fencepost.core.hooks import HookDeclarer, make_lifespan
from fencepost.core.job.job import Job, NewJob
from fencepost.core.job.policy import RETRY_VARIABLE, Policy, Retry, parse_preset
from fencepost.core.job.timeouts import Retention, Timeouts
from fencepost.core.values.payload import parse_max_payload
from fencepost.core.values.times import Duration
from fencepost.core.webhooks.callback import VARIABLE, Webhooks, parse_variable
from fencepost.delivery import delivery_task, load_sender
from fencepost.errors import ConfigurationError
from fencepost.handles.access import AsyncAudit, AsyncTokens, Audit, Tokens
from fencepost.handles.decorators import TaskDeclarer, TaskDecorator
from fencepost.handles.events import EventHandle
from fencepost.handles.flows import AsyncFlow, Flow
from fencepost.handles.job import AsyncJobHandle, JobHandle
from fencepost.handles.root import AsyncRoot, Root
from fencepost.handles.task import TaskHandle
from fencepost.store.interface.records.crons import CronView
from fencepost.store.interface.store import Store
from fencepost.store.url import url_from_environment

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from starlette.applications import Starlette

    from fencepost.worker import Worker


L = TypeVar("L", bound=Callable[..., Any])


VERSION_VARIABLE = "FENCEPOST_APP_VERSION"


class App(Root[Job, CronView]):
    """A store, the tasks that run on it, and the means to inspect and control their jobs.

    Without a URL: ``FENCEPOST_URL``, else a PostgreSQL ``DATABASE_URL``, else
    ``sqlite:///fencepost.db``.
    *retry*, or ``FENCEPOST_RETRY=patient``, is for tasks without their own.
    With *keys*, or ``FENCEPOST_KEYS``, the content of jobs is stored encrypted, and unencrypted
    content is refused; *plain*, or ``FENCEPOST_PLAIN``, can allow it until a date. With *tracing*,
    or ``FENCEPOST_TRACING``, submissions and attempts are OpenTelemetry spans.
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
        if retry is None:
            retry = parse_preset(os.environ.get(RETRY_VARIABLE))
        clock = clock or (store.clock if store is not None else SystemClock())
        ring = keys_from_environment() if keys is None else parse_keys(keys)
        self.session = open_session(
            tracing,
            url=self.url,
            clock=clock,
            timeouts=self.timeouts,
            max_payload=parse_max_payload(max_payload),
            given=store,
            webhooks=webhooks or parse_variable(os.environ.get(VARIABLE)),
            keys=ring,
            plain=_plain(plain, ring, clock),
            policy=_policy(retry, self.timeouts),
        )
        self.task = TaskDeclarer(self.session, retry)
        """Makes a function a task: ``@app.task`` or ``@app.task(queue="mail", …)``."""
        if self.session.webhooks is not None:
            self.task.add(delivery_task(self.session.webhooks, lambda: self.session.store))
        super().__init__(self.session)
        self.tokens = Tokens(self.session)
        self.audit = Audit(self.session)
        hooks = self.session.hooks
        self.around = HookDeclarer(hooks.around, "ctx, call")
        """Call ``f(ctx, call)`` around attempts: ``call()`` runs the handler, or the next hook.

        ``def`` or ``async def``; the first declared is the outermost. What it raises fails the
        attempt. ``@app.around(types=…, queues=…)`` limits it.
        """
        self.on_failure = HookDeclarer(hooks.on_failure, "ctx, failed")
        """Call ``f(ctx, failed)`` in the worker after each attempt that failed.

        *failed* is a FailedAttempt: what was raised, and whether there will be another attempt.
        """
        self.on_dead_letter = HookDeclarer(hooks.on_dead_letter, "ctx, failed")
        """Call ``f(ctx, failed)`` in the worker whose attempt was a job's last, and failed."""
        self.on_submit = HookDeclarer(hooks.on_submit, "job")
        """Call ``f(job)`` before a job is stored; it may return a changed NewJob, or raise."""

    @property
    def aio(self) -> AsyncApp:
        """The same names, awaited."""
        return AsyncApp(self)

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        return self.session.store

    def event(self, pattern: str) -> EventHandle:
        """Return a handle on the event of this name, or on all whose names match a pattern.

        ``@app.event("user.*").on`` adds a handler; ``app.event("user.created").send(…)`` sends.
        """
        return EventHandle(self.task, check_pattern(pattern))

    def cron(
        self,
        expr: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Literal["latest", "skip", "catch_up"] = "latest",
        catch_up: int | None = None,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> TaskDecorator:
        """Submit a task on a schedule: ``@app.cron("0 9 * * 1-5", tz="Europe/Berlin")``.

        Decorates a task, or a function, which becomes one. Each tick makes one job, however many
        workers run. *missed* decides about ticks at which no worker ran.
        """

        def decorate(decorated: Any) -> TaskHandle[..., Any]:
            task = decorated if isinstance(decorated, TaskHandle) else self.task(decorated)
            template = task.prepare(**keywords(arguments))
            name_ = task.type if name is None else name
            declare(self.session, name_, expr, tz, template, missed=missed, catch_up=catch_up)
            return task

        return cast("TaskDecorator", decorate)

    def lifespan(self, function: L) -> L:
        """Run an async generator or context manager as long as a worker: once in each process.

        It is called with the app. What it yields is ``ctx.state``.
        """
        hooks = self.session.hooks
        if hooks.lifespan is not None:
            raise ConfigurationError("this app has a lifespan already; enter both in one")
        hooks.lifespan = make_lifespan(function, self)
        return function

    def submit_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[JobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        return self._submit_all(check_bulk(list(jobs)), conn)

    def flow(self, nodes: Nodes | Graph) -> Flow:
        """Return jobs that wait for each other, ready to be submitted together.

        Give prepared jobs by name, or a graph of ``chain``, ``fan_out`` and ``fan_in``. Raises
        DependencyError if a job could never run.
        """
        return Flow(self.session, prepare(nodes))

    def worker(
        self,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        *,
        concurrency: int = CONCURRENCY_DEFAULT,
        lease_ttl: Duration | None = None,
        grace: Duration = GRACE_DEFAULT,
        prefetch: int = 0,
        max_jobs: int | None = None,
        max_rss: int | str | None = None,
        version: str | None = None,
    ) -> Worker:
        """Return a worker for this app's tasks; ``run()`` blocks until it is stopped.

        - ``queues``: the queues to serve, or their weights; by default, all
        - ``concurrency``: how many jobs run at once
        - ``lease_ttl``: how long a silent worker keeps a job
        - ``grace``: how long running jobs may take to finish after a stop
        - ``max_jobs``: ``run()`` returns after so many jobs, for a fresh process to go on
        - ``max_rss``: the same once the process has so much memory: ``"512MB"``, or a number of MB
        - ``version``: of your code, shown in lists of workers; by default FENCEPOST_APP_VERSION
        """
        from fencepost.worker import Worker

        self._check_runnable()
        if self.session.webhooks is not None:
            load_sender()  # or the first delivery would wait for it
        return Worker(
            self.store,
            self.session.tasks,
            crons=self.session.crons,
            counters=self.session.counters,
            tracing=self.session.tracing,
            hooks=self.session.hooks,
            retention=self.full_retention,
            queues=queues,
            concurrency=concurrency,
            lease_ttl=self.timeouts.lease_ttl if lease_ttl is None else lease_ttl,
            grace=grace,
            prefetch=prefetch,
            max_jobs=max_jobs,
            max_rss=max_rss,
            version=version or os.environ.get(VERSION_VARIABLE) or None,
            preload=self.session.preload,
        )

    def _check_runnable(self) -> None:
        """Raise ConfigurationError if handlers could not run; those of a framework need its app."""

    @property
    def full_retention(self) -> Retention:
        """How long everything is kept, with the retention of single tasks."""
        tasks = self.session.tasks.values()
        own = {task.type: task.retention for task in tasks if task.retention is not None}
        return self.retention.with_types(own)

    def asgi(self, *, dashboard: bool = True) -> Starlette:
        """Return the HTTP API of this app, to be mounted in any ASGI application or served.

        Callers need a token, see ``fencepost tokens``. The dashboard is at its root, unless
        *dashboard* is false.
        """
        from fencepost.http import asgi

        return asgi(self, dashboard=dashboard)

    def migrate(self) -> list[str]:
        """Bring the store's schema up to date; return the applied migrations."""
        return self.store.migrate()

    def close(self) -> None:
        """Close the store."""
        self.session.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<App {self.name} {shown_url(self.url)}>"


class AsyncApp(AsyncRoot[Job, CronView]):
    """The awaited face of App."""

    def __init__(self, app: App) -> None:
        self._app = app
        super().__init__(app.session)
        self.tokens = AsyncTokens(app.session)
        self.audit = AsyncAudit(app.session)

    async def submit_many(
        self, jobs: Iterable[NewJob], *, conn: Any = None
    ) -> list[AsyncJobHandle[Any]]:
        """Store prepared jobs of any tasks, all or none, in one transaction, or in *conn*'s."""
        return await self._submit_all(check_bulk(list(jobs)), conn)

    def flow(self, nodes: Nodes | Graph) -> AsyncFlow:
        """Return jobs that wait for each other, ready to be submitted together."""
        return AsyncFlow(self._app.session, prepare(nodes))

    async def migrate(self) -> list[str]:
        """Bring the store's schema up to date; return the applied migrations."""
        return self._app.store.migrate()

    async def close(self) -> None:
        """Close the store."""
        self._app.close()

    async def __aenter__(self) -> AsyncApp:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._app.close()


def keys_from_environment() -> KeyRing | None:
    """Return the encryption keys of the environment, if there are any."""
    text = os.environ.get("FENCEPOST_KEYS")
    return parse_keys(text) if text else None


def _policy(retry: Retry, timeouts: Timeouts) -> Policy:
    """Return the policy of jobs whose type this app does not declare."""
    return Policy(
        **retry_fields(retry),
        timeout=timeouts.execution,
        lifetime=timeouts.lifetime,
        lease_ttl=timeouts.lease_ttl,
    )


def _plain(given: str | Plain | None, ring: KeyRing | None, clock: Clock) -> Plain:
    """Return the rule for unencrypted content; without keys, nothing is refused."""
    if given is not None and ring is None:
        raise ConfigurationError(
            "plain= is the rule for unencrypted content beside encryption keys, and there are no "
            "keys; give keys= or FENCEPOST_KEYS"
        )
    if given is None:
        given = os.environ.get("FENCEPOST_PLAIN") or REFUSE
    return parse_plain(given, clock.now())
