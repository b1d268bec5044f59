"""A worker: one process, some slots, and the services that keep them busy."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    FAREWELL,
    GRACE_DEFAULT,
    WORKER_LEASE_TTL_DEFAULT,
)
from fencepost.core.display import shown, shown_url
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import parse_lease_ttl
from fencepost.core.limits.weights import parse_weights
from fencepost.core.retention import Retention
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.errors import ConfigurationError, StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.store import Store
from fencepost.worker.pipeline import Pipeline, WorkerSettings
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.threads import short_turns
from fencepost.worker.shutdown import Shutdown, drain

if TYPE_CHECKING:
    from fencepost.core.cron.cron import Cron
    from fencepost.observe.tracing import Tracing


class Worker:
    """Runs the jobs of the types it knows. Made by ``app.worker(...)``."""

    _heartbeater_class: ClassVar[type[Heartbeater]] = Heartbeater
    """A simulation puts one in its place that needs no thread."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        *,
        crons: Mapping[str, Cron] | None = None,
        counters: Counters | None = None,
        tracing: Tracing | None = None,
        retention: Retention | None = None,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        lease_ttl: Duration | None = None,
        grace: Duration = GRACE_DEFAULT,
        prefetch: int = 0,
        id: str | None = None,
    ) -> None:
        _check_count("concurrency", concurrency, 1, CONCURRENCY_MAX)
        _check_prefetch(prefetch)
        self.counters = counters or Counters()
        self.id = id or f"{socket.gethostname()}-{os.getpid()}-{store.clock.new_id().hex()[:8]}"
        self._settings = WorkerSettings(
            worker=self.id,
            store=store,
            tasks=tasks,
            crons=crons or {},
            counters=self.counters,
            tracing=tracing,
            retention=retention or Retention(),
            queues=None if queues is None else parse_weights(queues),
            concurrency=concurrency,
            lease_ttl=parse_lease_ttl(lease_ttl) or WORKER_LEASE_TTL_DEFAULT,
            grace=parse_duration(grace, name="grace"),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._stop_mutex = threading.Lock()
        self._pipeline: Pipeline | None = None
        """Of the present run, or of the last one."""
        self.is_replaceable = False
        """Whether somebody starts another in our place if we end: then a thread that cannot be
        stopped ends with this process, once its other jobs are done."""

    @property
    def aio(self) -> AsyncWorker:
        """``await worker.aio.run()`` runs it on the present event loop."""
        return AsyncWorker(self)

    @property
    def is_retiring(self) -> bool:
        """Whether the last run ended because a thread could not be stopped, and wants another."""
        return self._pipeline is not None and self._pipeline.shutdown.is_retiring

    def run(self, until_idle: bool = False) -> None:
        """Run jobs until stopped or, with *until_idle*, until nothing is claimable."""
        with short_turns():
            asyncio.run(self.run_async(until_idle, owns_loop=True))

    def stop(self) -> None:
        """Stop, from any thread: finish what runs within grace; a second call stops at once."""
        with self._stop_mutex:
            self._stop_requests += 1
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._on_stop)

    async def run_async(self, until_idle: bool = False, *, owns_loop: bool = False) -> None:
        """As ``run``, on the present event loop, which may have others to serve.

        Cancelled, it interrupts what runs, gives it back, and ends all that it has started before
        the CancelledError goes on. Cancelled again, it waits for nothing that takes long.
        """
        self._loop = asyncio.get_running_loop()
        shutdown = Shutdown(self.id, is_replaceable=self.is_replaceable)
        self._pipeline = pipeline = Pipeline(
            self._settings,
            shutdown,
            until_idle=until_idle,
            owns_loop=owns_loop,
            heartbeater_class=self._heartbeater_class,
        )
        self.counters.pulse.is_stopping = False
        self._watch_signals()
        if self._stop_requests:
            self._on_stop()
        log(
            names.WORKER_STARTED,
            worker=self.id,
            types=len(self._settings.tasks),
            store=shown_url(self._settings.store.url),
        )
        pipeline.heartbeater.start()
        if pipeline.ticker is not None and until_idle:
            await pipeline.ticker.attempt()  # else there might be nothing to do, and it would end
        services = [
            asyncio.create_task(service, name=f"fencepost-{name}")
            for name, service in pipeline.services()
        ]
        # In tasks of their own, so that a cancellation tears nothing: a claim that is under way
        # brings jobs, which have to be given back.
        working = asyncio.create_task(pipeline.fetcher.run(), name="fencepost-work")
        try:
            await shutdown.see_through(working, self._on_stop)
        finally:
            ending = asyncio.create_task(self._end(pipeline, services), name="fencepost-end")
            await shutdown.see_through(ending, self._on_stop)
        if shutdown.cancels:
            raise asyncio.CancelledError

    def _on_stop(self) -> None:
        assert self._pipeline is not None
        self._pipeline.shutdown.requests = self._stop_requests
        self._pipeline.executor.stop_starting()

    async def _end(self, pipeline: Pipeline, services: list[asyncio.Task[Any]]) -> None:
        try:
            await drain(pipeline, self._settings.grace, services[0])
        finally:
            await self._tear_down(pipeline, services)

    async def _tear_down(self, pipeline: Pipeline, services: list[asyncio.Task[Any]]) -> None:
        for service in services:
            service.cancel()
        pipeline.executor.concluder.close()
        await asyncio.gather(*services, return_exceptions=True)
        await pipeline.close()
        # Both are courtesies: a silent worker is forgotten, and a term runs out.
        store = self._settings.store
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await store.run_async(store.cluster.retire(self.id))
                await pipeline.maintenance.resign()
        self._unwatch_signals()
        with self._stop_mutex:
            self._loop = None
            self._stop_requests = 0
        log(names.WORKER_STOPPED, worker=self.id)

    def _watch_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError):
                    self._loop.add_signal_handler(number, self.stop)

    def _unwatch_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.remove_signal_handler(number)


class AsyncWorker:
    """The awaited face of Worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self, until_idle: bool = False) -> None:
        """Run jobs on this event loop until stopped or until nothing is claimable."""
        await self._worker.run_async(until_idle)


def _check_prefetch(value: object) -> None:
    """Refuse to hold jobs that cannot start: they would be counted and shown as running (C41)."""
    if value not in (0, None):
        raise ConfigurationError(
            f"prefetch can only be 0, got {shown(value)}: a worker claims a job only when it has a "
            "free slot for it; raise concurrency instead"
        )


def _check_count(name: str, value: object, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {minimum} and {maximum}, got {shown(value)}"
        )
