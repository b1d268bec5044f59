"""The backend of an app: the store, opened when it is first needed, and the settings."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.actions.backend import StoredJob
from fencepost.actions.local.actions import LocalActions
from fencepost.actions.local.replies import accepted
from fencepost.actions.local.steps import Join, StoreSteps
from fencepost.actions.script import Script, drive, drive_async
from fencepost.clock import Clock
from fencepost.core.crypto.keyring import KeyRing
from fencepost.core.crypto.plain import REFUSE, Plain
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import Timeouts
from fencepost.core.webhooks.settings import Webhooks
from fencepost.errors import ConfigurationError, UnknownTypeError
from fencepost.observe.counters import Counters
from fencepost.store.interface.replies import EnqueueReply
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store, with_keys
from fencepost.store.plan import Operation
from fencepost.store.wrappers.observed import observed

if TYPE_CHECKING:
    from fencepost.actions.group_commit import Submitter
    from fencepost.core.cron.cron import Cron
    from fencepost.observe.tracing import Tracing
    from fencepost.store.wrappers.gauges import Gauges

T = TypeVar("T")


class Session:
    """One app's way to its store. Opened lazily, and anew in a forked child."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        timeouts: Timeouts,
        max_payload: int,
        store: Store | None,
        webhooks: Webhooks | None = None,
        keys: KeyRing | None = None,
        plain: Plain = REFUSE,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        self.url = url
        self.clock = clock
        self.timeouts = timeouts
        self.max_payload = max_payload
        self.webhooks = webhooks
        self.keys = keys
        self.plain = plain
        self.policy = policy
        """What a job is given whose type this app does not register."""
        self.tracing: Tracing | None = None
        self.counters = Counters()
        self._gauges: Gauges | None = None
        self.tasks: dict[str, Task] = {}
        self.crons: dict[str, Cron] = {}
        self._mutex = threading.Lock()
        self._store = None if store is None else self._around(store)
        self._pid = os.getpid()
        self._is_closed = False
        self._submitter: Submitter | None = None
        self.actions = LocalActions(self)
        """What can be asked of the store."""

    @property
    def store(self) -> Store:
        """The app's store; opens it if need be."""
        if self._store is None or self._pid != os.getpid():
            self._open()
        assert self._store is not None
        return self._store

    @property
    def gauges(self) -> Gauges:
        """What monitors are told of the store; whoever has none must not pay for its import."""
        from fencepost.store.wrappers.gauges import Gauges

        with self._mutex:
            if self._gauges is None:
                self._gauges = Gauges(self.clock)
            return self._gauges

    def _around(self, store: Store) -> Store:
        """Return a store that an app was given as the app uses it."""
        if self.keys is not None and store.keys is None:
            store = with_keys(store, self.keys, self.plain)
        return observed(store, self.counters)

    def _open(self) -> None:
        with self._mutex:
            if self._is_closed:
                raise ConfigurationError("this app has been closed")
            if self._store is None or self._pid != os.getpid():
                patience = min(self.timeouts.submission, 10.0)
                store = open_store(
                    self.url,
                    clock=self.clock,
                    patience=patience,
                    keys=self.keys,
                    plain=self.plain,
                )
                self._store = observed(store, self.counters)
                self._submitter = None
                self._pid = os.getpid()

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            if self._store is not None and self._pid == os.getpid():
                self._store.close()
            self._store = None

    # Running scripts.

    def run(self, script: Script[T]) -> T:
        with StoreSteps(self.store) as steps:
            return drive(script, steps.perform)

    async def run_async(self, script: Script[T]) -> T:
        with StoreSteps(self.store) as steps:
            return await drive_async(script, steps.perform_async)

    # Submitting.

    def submit(self, job: NewJob, conn: Any = None) -> StoredJob:
        """Store one job, and return when it is safe, or when it is part of *conn*'s transaction."""
        if conn is not None:
            return accepted(self.store.run_in(conn, lambda store: store.queue.enqueue([job]))[0])
        return accepted(self.store.run(self.in_time(self.store.queue.enqueue([job])))[0])

    def submit_all(self, jobs: list[NewJob], conn: Any = None) -> Script[list[StoredJob]]:
        """Store all of *jobs* or none, in one transaction, or in *conn*'s."""
        if conn is None:
            step: Any = self.in_time(self.store.queue.enqueue(jobs, atomic=True))
        else:
            step = Join(conn, lambda store: store.queue.enqueue(jobs, atomic=True))
        replies: list[EnqueueReply] = yield step
        return [accepted(reply) for reply in replies]

    async def submit_async(self, job: NewJob, conn: Any = None) -> StoredJob:
        """Store one job together with others submitted at the same time, or as *conn*'s alone."""
        if conn is not None:
            replies = await self.store.run_in_async(conn, lambda store: store.queue.enqueue([job]))
            return accepted(replies[0])
        if job.after is not None or job.run_at is not None:
            # What cannot be waited for, or falls due too late by the store's clock, refuses the
            # whole batch, and strangers share a group.
            operation = self.in_time(self.store.queue.enqueue([job]))
            return accepted((await self.store.run_async(operation))[0])
        store = self.store
        if self._submitter is None or self._submitter.store is not store:
            # Callers that never await must not pay for loading asyncio: half of our import time.
            from fencepost.actions.group_commit import Submitter

            self._submitter = Submitter(store, self.timeouts.submission)
        return accepted(await self._submitter.submit(job))

    def in_time(self, operation: Operation[T]) -> Operation[T]:
        """Give up on a server that is silent for longer than a submission may take.

        As long as it says something it is waited for: a bulk takes the time that it needs.
        """
        return operation.within(self.timeouts.submission)

    def carrying(self, jobs: list[NewJob]) -> list[NewJob]:
        """Return *jobs* as they are to be stored: with the present trace, if there is one."""
        return jobs

    def task(self, type: str) -> Task:
        """Return the task of this name, or raise UnknownTypeError."""
        try:
            return self.tasks[type]
        except KeyError:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTypeError(
                f"no task is called {type!r} in this app; there are: {known}"
            ) from None
