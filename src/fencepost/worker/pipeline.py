"""The services of one run of a worker, in the order in which a job passes them.

``fetcher`` claims jobs and hands them to ``executor``, which runs an attempt of each. An attempt
puts its settlement into the queue of ``settler``, which writes. All three share ``slots``, and none
calls back. ``heartbeater`` extends the leases of all jobs in flight, in a separate thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import ANNOUNCE_INTERVAL, FAREWELL, LAG_INTERVAL, UNSETTLED_MAX
from fencepost.errors import StoreError
from fencepost.maintenance import Maintenance
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.store import Store
from fencepost.worker.orphans import Orphans, Unheard
from fencepost.worker.retirement import Retirement
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.executor import HandlerExecutor
from fencepost.worker.run.fetcher import Claimer, Fetcher
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight, InFlightJob, interrupt_lost
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.shutdown import Shutdown
from fencepost.worker.starts import NoRecord, StartRecord, runtime_folder
from fencepost.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from fencepost.maintenance import Ticker

ANNOUNCE_AGAIN = 1.0
"""Seconds until the next announcement after one that failed."""


class Pipeline:
    """Everything that belongs to one run."""

    def __init__(
        self,
        settings: WorkerSettings,
        shutdown: Shutdown,
        *,
        until_idle: bool,
        owns_loop: bool,
        heartbeater_class: type[Heartbeater],
        shared: Any = None,
    ) -> None:
        store, counters = settings.store, settings.counters
        self.worker = settings.worker
        self.lease_ttl = settings.lease_ttl
        self.store = store
        self.shutdown = shutdown
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._started_at = store.clock.now()
        self._lag = LoopLag()
        self.inflight = InFlight(settings.concurrency + UNSETTLED_MAX)
        self.slots = WorkerSlots(settings.concurrency, self.inflight, until_idle=until_idle)
        self.retirement = self._retirement()
        self.settler = Settler(store, self.inflight, counters, self.slots)
        # A test's loop may run faster than time, and has nothing that could block it.
        is_real = isinstance(store.clock, SystemClock)
        self.orphans: Orphans | None = None
        self.starts = self._record_starts() if is_real else NoRecord()
        self.executor = HandlerExecutor(
            settings,
            slots=self.slots,
            settler=self.settler,
            starts=self.starts,
            shutdown=shutdown,
            shared=shared,
            owns_loop=owns_loop,
        )
        self.heartbeater = heartbeater_class(store, self.inflight, counters, self._lost)
        self.claimer = self._claimer()
        self._unheard = self._unheard_jobs()
        self.fetcher = self._fetcher(may_block=owns_loop)
        self.maintenance = Maintenance(
            store, worker=settings.worker, retention=settings.retention, counters=counters
        )
        self._watchdog = Watchdog(self._loop) if is_real else None
        self.ticker = self._ticker()

    def _retirement(self) -> Retirement:
        settings = self._settings
        return Retirement(
            self.slots,
            self.shutdown,
            self.store.clock,
            max_jobs=settings.max_jobs,
            max_rss=settings.max_rss,
        )

    def _record_starts(self) -> StartRecord | NoRecord:
        """Record which handlers have started, and look for workers that have died over jobs.

        Not under a name that was given: another worker may have had it, or have it, so what is held
        under it may be running. And not where all jobs die with the process.
        """
        settings = self._settings
        if settings.is_named or self.store.url.startswith("memory:"):
            return NoRecord()
        try:
            folder = runtime_folder()
            record = StartRecord(
                folder,
                settings.worker,
                slots=settings.concurrency,
                lease_ttl=settings.lease_ttl,
                live=self.inflight.started,
            )
        except OSError as error:
            log(names.STARTS_UNRECORDED, level=logging.WARNING, error=str(error))
            return NoRecord()
        self.orphans = Orphans(self.store, folder, settings.counters)
        return record

    def _claimer(self) -> Claimer:
        settings = self._settings
        return Claimer(
            self.store,
            self.inflight,
            settings.counters,
            self.slots,
            worker=settings.worker,
            types=frozenset(settings.tasks),
            queues=settings.queues,
            lease_ttl=settings.lease_ttl,
        )

    def _unheard_jobs(self) -> Unheard | None:
        settings = self._settings
        if settings.is_named:
            return None  # another worker of this name may hold jobs under it
        return Unheard(
            self.store, self.inflight, worker=settings.worker, lease_ttl=settings.lease_ttl
        )

    def _fetcher(self, *, may_block: bool) -> Fetcher:
        return Fetcher(
            self.store,
            self.claimer,
            self.executor,
            inflight=self.inflight,
            slots=self.slots,
            settler=self.settler,
            heartbeater=self.heartbeater,
            orphans=self.orphans,
            unheard=self._unheard,
            may_block=may_block,
        )

    def _ticker(self) -> Ticker | None:
        settings = self._settings
        if not settings.crons:
            return None
        from fencepost.maintenance import Ticker

        return Ticker(self.store, settings.crons, settings.counters, settings.tracing)

    def services(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return the services that run beside the fetcher, by name; the settler first."""
        settings = self._settings
        if self._watchdog is not None:
            self._watchdog.start()
        services = [
            ("settler", self.settler.start()),
            ("leases", self.heartbeater.watch()),
            ("notification", self.fetcher.listen()),
            ("maintenance", self._maintain()),
            ("presence", self._announce()),
            ("lag", measure_lag(self.store.clock, settings.counters, self._lag)),
            ("memory", self.retirement.watch()),
        ]
        if self.orphans is not None:
            services.append(("orphans", self.orphans.watch()))
        if self.ticker is not None:
            services.append(("crons", self.ticker.start()))
        return services

    async def close(self) -> None:
        """Stop what runs in threads and processes. The services on the loop have ended."""
        await self.executor.failure_hooks.finish(FAREWELL)
        await self.heartbeater.stop_async()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._is_over = True
        await self.executor.close()
        # What is still held could not be settled: this process has died over it, as it were.
        self.starts.close(is_empty=not self.leaves_jobs)

    @property
    def leaves_jobs(self) -> bool:
        """Whether the store may still show jobs as running here, after the run."""
        is_unheard = self.claimer.is_asking or not (self._unheard is None or self._unheard.is_over)
        return is_unheard or bool(self.inflight.held)

    def _lost(self, held: InFlightJob, reason: CancelReason) -> None:
        """Report a lost job to the loop, from the heartbeater's thread."""
        if not self._is_over:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(
                    interrupt_lost, held, reason, self._settings.counters
                )

    async def _maintain(self) -> None:
        """Do the chores if this is the leader. They recover leases, and count what had started."""
        await self.fetcher.has_looked.wait()
        await self.maintenance.start()

    async def _announce(self) -> None:
        """List this worker, from the time at which it can take jobs."""
        await self.executor.is_warm.wait()
        await announce(self.store, self._describe)

    def _describe(self) -> WorkerInfo:
        settings = self._settings
        return WorkerInfo(
            id=settings.worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=settings.queues,
            types=tuple(sorted(settings.tasks)),
            concurrency=settings.concurrency,
            started_at=self._started_at,
            running=len(self.slots.running),
            version=settings.version,
            fencepost_version=installed_version(),
            lag=self._lag.take(),
        )


@cache
def installed_version() -> str | None:
    """Return the version of Fencepost; None if it is not installed, but run from its source."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("fencepost")
    return None


class LoopLag:
    """By how many seconds the loop was late at worst, since that was last asked for."""

    def __init__(self) -> None:
        self._worst: float | None = None

    def note(self, lag: float) -> None:
        self._worst = max(self._worst or 0.0, lag)

    def take(self) -> float | None:
        """Return the worst lag in milliseconds' precision, and start again; None if unknown."""
        worst, self._worst = self._worst, None
        return None if worst is None else round(worst, 3)


async def measure_lag(clock: Clock, counters: Counters, worst: LoopLag) -> None:
    """Note that the loop turns, and count by how much it oversleeps, forever."""
    while True:
        before = counters.pulse.turned_at = clock.monotonic()
        await clock.sleep_async(LAG_INTERVAL)
        lag = max(clock.monotonic() - before - LAG_INTERVAL, 0.0)
        counters.add(names.LOOP_LAG, lag)
        worst.note(lag)


async def announce(store: Store, describe: Callable[[], WorkerInfo]) -> None:
    """Write what *describe* returns to the store, forever; for people, nothing depends on it."""
    while True:
        pause = ANNOUNCE_AGAIN
        with suppress(StoreError):
            await store.run_async(store.cluster.announce(describe()))
            pause = ANNOUNCE_INTERVAL
        await store.clock.sleep_async(pause)
