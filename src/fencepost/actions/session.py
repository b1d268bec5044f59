"""The backend of an app: its settings, its actions, and the store, opened on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fencepost.actions.backend import Script
from fencepost.actions.local.access import LocalAudit, LocalTokens
from fencepost.actions.local.crons import LocalCrons
from fencepost.actions.local.dead_letters import LocalDeadLetters
from fencepost.actions.local.events import LocalEvents
from fencepost.actions.local.flows import LocalFlows
from fencepost.actions.local.jobs import LocalJobs
from fencepost.actions.local.queues import LocalQueues, LocalTypes, stats
from fencepost.actions.local.replays import LocalReplays
from fencepost.actions.local.steps import Join, StoreSteps, accepted
from fencepost.actions.replies import StoredJob
from fencepost.clock import Clock
from fencepost.core.display import did_you_mean, shown
from fencepost.core.encryption import REFUSE, KeyRing, Plain
from fencepost.core.hooks import Hooks
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import Timeouts
from fencepost.core.stats.statistics import Statistics
from fencepost.core.values.names import check_queue, check_type
from fencepost.core.values.times import Duration
from fencepost.core.webhooks.callback import Webhooks
from fencepost.errors import ConfigurationError, UnknownTypeError
from fencepost.generators import drive, drive_async
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store, with_keys
from fencepost.store.plan import Operation
from fencepost.store.wrappers.observed import observed

if TYPE_CHECKING:
    from fencepost.actions.group_commit import Submitter
    from fencepost.core.cron import Cron
    from fencepost.observe.health import Verdict
    from fencepost.observe.tracing import Tracing
    from fencepost.store.interface.records.cluster import WorkerInfo
    from fencepost.store.wrappers.gauges import Gauges

T = TypeVar("T")

TRACING_VARIABLE = "FENCEPOST_TRACING"
OFF = ("", "0", "false", "off")
LINK = ("1", "true", "on", "link")
PARENT = "parent"

TracingMode = Literal["link", "parent"]
"""An attempt's span links to that of its submission, or is its child."""


class LocalActions:
    """The actions of an app, by subject."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.jobs = LocalJobs(session)
        self.flows = LocalFlows(session)
        self.dead_letters = LocalDeadLetters(session)
        self.replays = LocalReplays(session)
        self.events = LocalEvents(session)
        self.queues = LocalQueues(session, Scope.QUEUE, check_queue)
        self.types = LocalTypes(session, Scope.TYPE, check_type)
        self.crons = LocalCrons(session)
        self.tokens = LocalTokens(session)
        self.audit = LocalAudit(session)

    def workers(self) -> Script[list[WorkerInfo]]:
        """Return the workers heard from within the last minute."""
        workers: list[WorkerInfo] = yield self._session.store.cluster.workers()
        return workers

    def gone_workers(self) -> Script[list[WorkerInfo]]:
        """Return the last 100 workers that stopped or fell silent within an hour."""
        gone: list[WorkerInfo] = yield self._session.store.cluster.gone()
        return gone

    def limit(self, max_running: int | None) -> Script[None]:
        """Limit how many jobs run at once in all."""
        yield self._session.store.settings.limit(Scope.APP, "", max_running)

    def stats(self, window: Duration) -> Script[Statistics]:
        """Return counts, and rates and times of the last *window*."""
        return stats(self._session, window)


@dataclass(kw_only=True, eq=False)
class Session:
    """One app's way to its store. Opened lazily, and again in a forked child."""

    url: str
    clock: Clock
    timeouts: Timeouts
    max_payload: int
    given: InitVar[Store | None] = None
    """A store that was opened already."""
    webhooks: Webhooks | None = None
    keys: KeyRing | None = None
    plain: Plain = REFUSE
    policy: Policy = DEFAULT_POLICY
    """For jobs whose type this app does not register."""
    locate: Callable[[], str] | None = None
    """Returns where the store is whenever it is opened, for an app that does not know it before."""
    transaction: Callable[[], Any] | None = None
    """Returns the connection whose open transaction a blocking submission joins unless it names
    one; None if none is open. Integrations with frameworks set it."""
    preload: tuple[str, ...] = ()
    """Modules that a child process imports before those of its handlers."""

    def __post_init__(self, given: Store | None) -> None:
        self.tracing: Tracing | None = None
        self.counters = Counters()
        self._gauges: Gauges | None = None
        self.tasks: dict[str, Task] = {}
        self.hooks = Hooks()
        self.crons: dict[str, Cron] = {}
        self.health_checks: list[Callable[[], Verdict]] = []
        """What else has to be ready before this process is."""
        self._mutex = threading.Lock()
        self._is_given = given is not None
        self._store = None if given is None else self._around(given)
        self._pid = os.getpid()
        self._is_closed = False
        self._submitter: Submitter | None = None
        self.actions = LocalActions(self)

    @property
    def store(self) -> Store:
        """The app's store, opened on first use."""
        if self._store is None or self._pid != os.getpid():
            self._open()
        assert self._store is not None
        return self._store

    @property
    def gauges(self) -> Gauges:
        """The gauges of the store, imported on first use: most processes have no monitor."""
        from fencepost.store.wrappers.gauges import Gauges

        with self._mutex:
            if self._gauges is None:
                self._gauges = Gauges(self.clock)
            return self._gauges

    def _around(self, store: Store) -> Store:
        """Return a store that was passed to the app, encrypted and observed."""
        if self.keys is not None and store.keys is None:
            store = with_keys(store, self.keys, self.plain)
        return observed(store, self.counters)

    def _open(self) -> None:
        with self._mutex:
            if self._is_closed:
                raise ConfigurationError("this app has been closed")
            if self._store is None or self._pid != os.getpid():
                if self.locate is not None:
                    self.url = self.locate()
                store = open_store(
                    self.url,
                    clock=self.clock,
                    patience=min(self.timeouts.submission, 10.0),
                    keys=self.keys,
                    plain=self.plain,
                )
                self._store = observed(store, self.counters)
                self._submitter = None
                self._pid = os.getpid()

    def redirect(self, url: str) -> None:
        """Use another store from now on; the present one is closed."""
        with self._mutex:
            if self._store is not None and self._pid == os.getpid():
                self._store.close()
            self._store = self._submitter = None
            self._is_given = False
            self.url = url

    def disconnect(self) -> None:
        """Close the store until it is used again; one that lives in this process stays open."""
        with self._mutex:
            is_kept = self._is_given or self.url.startswith("memory:")
            if self._store is not None and self._pid == os.getpid() and not is_kept:
                self._store.close()
                self._store = self._submitter = None

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            if self._store is not None and self._pid == os.getpid():
                self._store.close()
            self._store = None

    def run(self, script: Script[T]) -> T:
        with StoreSteps(self.store) as steps:
            return drive(script, steps.perform)

    async def run_async(self, script: Script[T]) -> T:
        with StoreSteps(self.store) as steps:
            return await drive_async(script, steps.perform_async)

    def submit(self, job: NewJob, conn: Any = None) -> StoredJob:
        """Store one job, and return when it is durable, or part of *conn*'s transaction."""
        (job,) = self.hooks.submitting([job])
        conn = self.joined(conn)
        if conn is not None:
            return accepted(self.store.run_in(conn, lambda store: store.queue.enqueue([job]))[0])
        return accepted(self.store.run(self.in_time(self.store.queue.enqueue([job])))[0])

    def submit_all(self, jobs: list[NewJob], conn: Any = None) -> Script[list[StoredJob]]:
        """Store all of *jobs* or none, in one transaction, or in *conn*'s."""
        jobs = self.hooks.submitting(jobs)
        conn = self.joined(conn)
        if conn is None:
            step: Any = self.in_time(self.store.queue.enqueue(jobs, atomic=True))
        else:
            step = Join(conn, lambda store: store.queue.enqueue(jobs, atomic=True))
        replies: list[EnqueueReply] = yield step
        return [accepted(reply) for reply in replies]

    async def submit_async(self, job: NewJob, conn: Any = None) -> StoredJob:
        """Store one job in a commit shared with others, or alone in *conn*'s transaction."""
        (job,) = self.hooks.submitting([job])
        if conn is not None:
            replies = await self.store.run_in_async(conn, lambda store: store.queue.enqueue([job]))
            return accepted(replies[0])
        if job.after is not None:
            # It may have to wait for locks of its dependencies, and others should not wait with it.
            operation = self.in_time(self.store.queue.enqueue([job]))
            return accepted((await self.store.run_async(operation))[0])
        store = self.store
        if self._submitter is None or self._submitter.store is not store:
            # Callers that never await must not pay for loading asyncio: half of our import time.
            from fencepost.actions.group_commit import Submitter

            self._submitter = Submitter(store, self.timeouts.submission)
        return accepted(await self._submitter.submit(job))

    def joined(self, conn: Any = None) -> Any:
        """Return the connection whose transaction a submission joins: *conn*, or an open one."""
        return self.transaction() if conn is None and self.transaction is not None else conn

    def in_time(self, operation: Operation[T]) -> Operation[T]:
        """Give up on a server that is silent for longer than a submission may take.

        A server that keeps answering is waited for: a bulk takes the time that it needs.
        """
        return operation.within(self.timeouts.submission)

    def carrying(self, jobs: list[NewJob]) -> list[NewJob]:
        """Return *jobs* as hooks change them, with the current trace, if there is one."""
        return self.hooks.submitting(jobs)

    def task(self, type: str) -> Task:
        """Return the task of this name, or raise UnknownTypeError."""
        try:
            return self.tasks[type]
        except KeyError:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTypeError(
                f"no task is called {type!r} in this app; there are: {known}"
                f"{did_you_mean(type, self.tasks)}"
            ) from None


class TracedSession(Session):
    """A session that makes a span of every submission, and sends its context with the jobs."""

    def __init__(self, tracing: Tracing, **settings: Any) -> None:
        super().__init__(**settings)
        self.tracing = self._traces = tracing

    def submit(self, job: NewJob, conn: Any = None) -> StoredJob:
        with self._traces.submitting([job]) as sending:
            return sending.note_one(super().submit(sending.jobs[0], conn))

    async def submit_async(self, job: NewJob, conn: Any = None) -> StoredJob:
        with self._traces.submitting([job]) as sending:
            return sending.note_one(await super().submit_async(sending.jobs[0], conn))

    def submit_all(self, jobs: list[NewJob], conn: Any = None) -> Script[list[StoredJob]]:
        if not jobs:
            return (yield from super().submit_all(jobs, conn))
        with self._traces.submitting(jobs) as sending:
            return (yield from super().submit_all(sending.jobs, conn))

    def carrying(self, jobs: list[NewJob]) -> list[NewJob]:
        return self._traces.carrying(super().carrying(jobs))


def open_session(tracing: bool | TracingMode | None, **settings: Any) -> Session:
    """Return an app's session; OpenTelemetry is imported only if *tracing* says so."""
    text = os.environ.get(TRACING_VARIABLE, "") if tracing is None else str(tracing)
    mode = text.strip().lower()
    if mode in OFF:
        return Session(**settings)
    if mode not in (*LINK, PARENT):
        raise ConfigurationError(
            f"tracing is True, False, 'link' or 'parent' ({TRACING_VARIABLE}: 1, 0, link, parent), "
            f"got {shown(text)}"
        )
    try:
        from fencepost.observe.tracing import Tracing
    except ImportError as error:
        raise ConfigurationError(
            "tracing needs OpenTelemetry; pip install 'fencepost[otel]'"
        ) from error
    return TracedSession(Tracing(is_parent=mode == PARENT), **settings)
