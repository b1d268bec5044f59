"""The services of one run of a worker, in the order in which a job passes them.

``fetcher`` claims jobs and hands them to ``executor``, which runs an attempt of each. An attempt
puts its settlement into the queue of ``settler``, which writes. All three share ``slots``, and none
calls back. ``heartbeater`` keeps the leases of what is in flight, in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.core.job.task import Task
from fencepost.core.retention import Retention
from fencepost.maintenance import Maintenance
from fencepost.observe.counters import Counters
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.store import Store
from fencepost.worker.monitor.health import measure_lag
from fencepost.worker.monitor.presence import announce, describe
from fencepost.worker.run.claimer import Claimer
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.executor import HandlerExecutor
from fencepost.worker.run.fetcher import Fetcher
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight, InFlightJob, interrupt_lost
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.shutdown import Shutdown

if TYPE_CHECKING:
    from fencepost.core.cron.cron import Cron
    from fencepost.maintenance import Ticker
    from fencepost.observe.tracing import Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a worker was made with: the same for each of its runs."""

    worker: str
    store: Store
    tasks: Mapping[str, Task]
    crons: Mapping[str, Cron]
    counters: Counters
    tracing: Tracing | None
    retention: Retention
    queues: dict[str, int] | None
    concurrency: int
    lease_ttl: float
    grace: float


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
    ) -> None:
        store, counters = settings.store, settings.counters
        self.worker = settings.worker
        self.store = store
        self.shutdown = shutdown
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._started_at = store.clock.now()
        self.inflight = InFlight()
        self.slots = WorkerSlots(settings.concurrency, self.inflight, until_idle=until_idle)
        self.settler = Settler(store, self.inflight, counters, self.slots)
        self.executor = HandlerExecutor(
            store,
            settings.tasks,
            counters=counters,
            slots=self.slots,
            settler=self.settler,
            shutdown=shutdown,
            tracing=settings.tracing,
            owns_loop=owns_loop,
        )
        self.heartbeater = heartbeater_class(store, self.inflight, counters, self._lost)
        self.claimer = Claimer(
            store,
            self.inflight,
            counters,
            self.slots,
            worker=settings.worker,
            types=frozenset(settings.tasks),
            queues=settings.queues,
            lease_ttl=settings.lease_ttl,
        )
        self.fetcher = Fetcher(
            store,
            self.claimer,
            self.executor,
            inflight=self.inflight,
            slots=self.slots,
            settler=self.settler,
            heartbeater=self.heartbeater,
            may_block=owns_loop,
        )
        self.maintenance = Maintenance(
            store, worker=settings.worker, retention=settings.retention, counters=counters
        )
        self.ticker: Ticker | None = None
        if settings.crons:
            from fencepost.maintenance import Ticker

            self.ticker = Ticker(store, settings.crons, counters)

    def services(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return what runs beside the fetcher until the end, by name; the settler first."""
        settings = self._settings
        services = [
            ("settler", self.settler.start()),
            ("leases", self.heartbeater.watch()),
            ("notification", self.fetcher.listen()),
            ("maintenance", self.maintenance.start()),
            ("presence", announce(self.store, self._describe)),
            ("lag", measure_lag(self.store.clock, settings.counters)),
        ]
        if self.ticker is not None:
            services.append(("crons", self.ticker.start()))
        return services

    async def close(self) -> None:
        """Stop what runs in threads and processes. The services on the loop have ended."""
        await self.heartbeater.stop_async()
        self._is_over = True
        self.executor.close()

    def _lost(self, held: InFlightJob, reason: CancelReason) -> None:
        """Pass it on to the loop, from the heartbeater's thread, that a job is lost."""
        if not self._is_over:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(
                    interrupt_lost, held, reason, self._settings.counters
                )

    def _describe(self) -> WorkerInfo:
        settings = self._settings
        return describe(
            settings.worker,
            queues=settings.queues,
            types=settings.tasks,
            concurrency=settings.concurrency,
            started_at=self._started_at,
            running=len(self.slots.running),
        )
