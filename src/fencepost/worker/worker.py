"""A worker: one process, some slots, and the services that keep them busy."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.clock import Clock
from fencepost.core.bounds import (
    APP_VERSION_LENGTH_MAX,
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    FAREWELL,
    GRACE_DEFAULT,
    WORKER_LEASE_TTL_DEFAULT,
)
from fencepost.core.display import shown, shown_url
from fencepost.core.hooks import Hooks
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import Retention, parse_lease_ttl
from fencepost.core.limits.weights import parse_weights
from fencepost.core.values.names import check_count, check_name
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import ConfigurationError, StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.platform import signals
from fencepost.store.interface.store import Store
from fencepost.worker.pipeline import Pipeline
from fencepost.worker.retirement import check_max_jobs, parse_max_rss
from fencepost.worker.run.batch import warn_of_small_batches
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.threads import short_turns
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.shutdown import Shutdown, drain

if TYPE_CHECKING:
    from fencepost.core.cron import Cron
    from fencepost.observe.tracing import Tracing


SIGNAL_TURNS = 5
"""Turns of the loop after which it has passed on every signal that came before."""


class Worker:
    """Runs the jobs of the types it knows. Made by ``app.worker(...)``."""

    _heartbeater_class: ClassVar[type[Heartbeater]] = Heartbeater
    """Simulations use one without a thread."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        *,
        crons: Mapping[str, Cron] | None = None,
        counters: Counters | None = None,
        tracing: Tracing | None = None,
        hooks: Hooks | None = None,
        retention: Retention | None = None,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        lease_ttl: Duration | None = None,
        grace: Duration = GRACE_DEFAULT,
        prefetch: int = 0,
        max_jobs: int | None = None,
        max_rss: int | str | None = None,
        version: str | None = None,
        preload: tuple[str, ...] = (),
        id: str | None = None,
    ) -> None:
        check_count(concurrency, "concurrency", 1, CONCURRENCY_MAX)
        _check_prefetch(prefetch)
        self.counters = counters or Counters()
        self.id = id or _new_id(store.clock)
        self._settings = WorkerSettings(
            worker=self.id,
            is_named=id is not None,
            store=store,
            tasks=tasks,
            crons=crons or {},
            counters=self.counters,
            tracing=tracing,
            hooks=hooks or Hooks(),
            retention=retention or Retention(),
            queues=None if queues is None else parse_weights(queues),
            concurrency=concurrency,
            lease_ttl=parse_lease_ttl(lease_ttl) or WORKER_LEASE_TTL_DEFAULT,
            grace=parse_duration(grace, name="grace"),
            max_jobs=check_max_jobs(max_jobs),
            max_rss=parse_max_rss(max_rss),
            version=None if version is None else check_version(version),
            preload=preload,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._stop_mutex = threading.Lock()
        self._pipeline: Pipeline | None = None
        """Of the current run, or of the last one."""
        self.is_replaceable = False
        """Whether this process is replaced when it ends: then a thread that cannot be stopped
        ends with it, once its other jobs are done."""
        self.on_retired: Callable[[], None] | None = None
        """Called when a run is over after which the process is to be replaced."""

    @property
    def aio(self) -> AsyncWorker:
        """``await worker.aio.run()`` runs it on the current event loop."""
        return AsyncWorker(self)

    @property
    def is_retiring(self) -> bool:
        """Whether the last run ended, or ends, so that its process is replaced.

        It has reached ``max_jobs`` or ``max_rss``, or a thread could not be stopped.
        """
        return self._pipeline is not None and self._pipeline.shutdown.is_retiring

    def run(self, until_idle: bool = False) -> None:
        """Run jobs until stopped or, with *until_idle*, until nothing is claimable.

        It also returns when ``max_jobs`` or ``max_rss`` is reached: see ``is_retiring``.
        """
        with short_turns(), asyncio.Runner(loop_factory=quick_loop()) as runner:
            runner.run(self.run_async(until_idle, owns_loop=True))

    def stop(self) -> None:
        """Stop, from any thread: finish what runs within grace; a second call stops at once."""
        with self._stop_mutex:
            self._stop_requests += 1
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._on_stop)

    async def run_async(self, until_idle: bool = False, *, owns_loop: bool = False) -> None:
        """As ``run``, on the current event loop, which may run other code as well.

        When cancelled, it interrupts and releases running jobs, and stops all its services before
        it raises CancelledError. When cancelled again, it waits for nothing that takes long.
        """
        async with self._settings.hooks.entered() as shared:
            await self._run(until_idle, owns_loop=owns_loop, shared=shared)

    async def _run(self, until_idle: bool, *, owns_loop: bool, shared: Any) -> None:
        self._loop = asyncio.get_running_loop()
        shutdown = Shutdown(self.id, is_replaceable=self.is_replaceable)
        self._pipeline = pipeline = Pipeline(
            self._settings,
            shutdown,
            until_idle=until_idle,
            owns_loop=owns_loop,
            heartbeater_class=self._heartbeater_class,
            shared=shared,
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
        warn_of_small_batches(self._settings.tasks, self._settings.concurrency)
        pipeline.heartbeater.start()
        if pipeline.ticker is not None and until_idle:
            await pipeline.ticker.attempt()  # or it might find nothing to do, and end
        services = [
            asyncio.create_task(service, name=f"fencepost-{name}")
            for name, service in pipeline.services()
        ]
        # In separate tasks, so that a cancellation does not cut off a claim in progress: its jobs
        # have to be released.
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
        # Only to be quick: a silent worker is forgotten, and a term expires.
        store = self._settings.store
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await store.run_async(store.cluster.retire(self.id))
                await pipeline.maintenance.resign()
        await self._unwatch_signals()
        leaves_jobs = pipeline.leaves_jobs or bool(pipeline.inflight.lost)
        if leaves_jobs and not self._settings.is_named:
            # Others may release what this run has left under its name, and had not started.
            self.id = _new_id(store.clock)
            self._settings = replace(self._settings, worker=self.id)
        with self._stop_mutex:
            self._loop = None
            pipeline.shutdown.requests = self._stop_requests  # also one that came just now
            self._stop_requests = 0
        log(names.WORKER_STOPPED, worker=pipeline.worker)
        if self.is_retiring and self.on_retired is not None:
            self.on_retired()

    def _watch_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            signals.watch(self._loop, self.stop)

    async def _unwatch_signals(self) -> None:
        """Leave signals to Python again; one that has come and was not yet seen is a stop."""
        if threading.current_thread() is not threading.main_thread():
            return
        assert self._loop is not None
        for number in signals.STOPPING:
            signal.signal(number, signals.default_of(number))
        # What came before is on its way through the loop: a process that retires must see it.
        for _ in range(SIGNAL_TURNS):
            await asyncio.sleep(0)  # noqa: TID251 - waits for nothing
        signals.leave(self._loop)


def _new_id(clock: Clock) -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{clock.new_id().hex()[:8]}"


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop, if it is installed; None means asyncio's own.

    It is for handlers that use the network. No-op jobs drain as fast on either, on SQLite with 100
    slots a tenth slower.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class AsyncWorker:
    """The awaited face of Worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self, until_idle: bool = False) -> None:
        """Run jobs on this event loop until stopped or until nothing is claimable."""
        await self._worker.run_async(until_idle)


check_version = partial(
    check_name, what="version", limit=APP_VERSION_LENGTH_MAX, error=ConfigurationError
)


def _check_prefetch(value: object) -> None:
    """Refuse to hold jobs that cannot start: they would be counted and shown as running (C41)."""
    if value not in (0, None):
        raise ConfigurationError(
            f"prefetch can only be 0, got {shown(value)}: a worker claims a job only when it has a "
            "free slot for it; raise concurrency instead"
        )
