"""A worker: one process, some slots, and the services that keep them busy."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.core.duration import Duration, parse_duration
from fencepost.core.failure import classify
from fencepost.core.lifecycle import Event
from fencepost.core.limits import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    FAREWELL,
    FRESH_CLAIM,
    GRACE_DEFAULT,
    INTERRUPT_GRACE,
    POLL_INTERVAL,
    PREFETCH_MAX,
    RECOVER_BATCH,
    WORKER_LEASE_TTL_DEFAULT,
)
from fencepost.core.outcome import Outcome, Released, Settlement, decide, settlement_of
from fencepost.core.retention import Retention
from fencepost.core.shown import shown, shown_url
from fencepost.core.task import Task
from fencepost.core.timeouts import parse_lease_ttl
from fencepost.core.weights import parse_weights
from fencepost.errors import ConfigurationError, StoreError
from fencepost.maintenance import Maintenance
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log, logger
from fencepost.store.protocol import Store, Topic
from fencepost.store.requests import Beat, WorkerInfo
from fencepost.worker.attempt import Attempt
from fencepost.worker.backoffs import Backoffs
from fencepost.worker.concluder import Concluder
from fencepost.worker.context import CancelReason
from fencepost.worker.executor import Executor
from fencepost.worker.fetcher import Fetcher
from fencepost.worker.hand import Hand, Held
from fencepost.worker.heartbeater import Heartbeater
from fencepost.worker.lag import measure_lag
from fencepost.worker.loader import Loader
from fencepost.worker.presence import announce
from fencepost.worker.rates import declare_rates
from fencepost.worker.settler import Settler

if TYPE_CHECKING:
    from fencepost.core.cron import Cron
    from fencepost.maintenance import Ticker
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
        prefetch: int | None = None,
        id: str | None = None,
    ) -> None:
        _check_count("concurrency", concurrency, 1, CONCURRENCY_MAX)
        if prefetch is not None:
            _check_count("prefetch", prefetch, 0, PREFETCH_MAX)
        self._store = store
        self._clock = store.clock
        self._tasks = tasks
        self._backoffs = Backoffs(tasks)
        self._crons = crons or {}
        self.counters = counters or Counters()
        self._tracing = tracing
        self._retention = retention or Retention()
        self._queues = None if queues is None else parse_weights(queues)
        self._concurrency = concurrency
        self._lease_ttl = parse_lease_ttl(lease_ttl) or WORKER_LEASE_TTL_DEFAULT
        self._grace = parse_duration(grace, name="grace")
        self._prefetch = prefetch
        self.id = id or f"{socket.gethostname()}-{os.getpid()}-{store.clock.new_id().hex()[:8]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._stop_mutex = threading.Lock()

    @property
    def aio(self) -> AsyncWorker:
        """``await worker.aio.run()`` runs it on the present event loop."""
        return AsyncWorker(self)

    # Running and stopping.

    def run(self, until_idle: bool = False) -> None:
        """Run jobs until stopped or, with *until_idle*, until nothing is claimable."""
        asyncio.run(self.run_async(until_idle, owns_loop=True))

    def stop(self) -> None:
        """Stop, from any thread: finish what runs within grace; a second call stops at once."""
        with self._stop_mutex:
            self._stop_requests += 1
            loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._heed_stop)

    async def run_async(self, until_idle: bool = False, *, owns_loop: bool = False) -> None:
        """As ``run``, on the present event loop, which may have others to serve."""
        self._loop = asyncio.get_running_loop()
        self._set_up(until_idle, owns_loop)
        self._watch_signals()
        if self._stop_requests:
            self._heed_stop()
        log(
            names.WORKER_STARTED,
            worker=self.id,
            types=len(self._tasks),
            store=shown_url(self._store.url),
        )
        self._heartbeater.start()
        if self._ticker is not None and until_idle:
            await self._ticker.attempt()  # else there might be nothing to do, and it would end
        services = [
            asyncio.create_task(service, name=f"fencepost-{name}")
            for name, service in (
                ("settler", self._settler.start()),
                ("leases", self._heartbeater.watch()),
                ("bell", self._listen()),
                ("maintenance", self._maintenance.start()),
                ("presence", announce(self._store, self._describe)),
                ("lag", measure_lag(self._clock, self.counters)),
                *self._cron_services(),
            )
        ]
        try:
            await self._recover_at_start()
            await declare_rates(
                self._store, self._tasks, self.counters, is_stopping=lambda: self._is_stopping
            )
            await self._work()
            await self._drain()
        finally:
            await self._tear_down(services)

    def _set_up(self, until_idle: bool, owns_loop: bool) -> None:
        """Make everything that belongs to one run."""
        self._until_idle = until_idle
        self._owns_loop = owns_loop
        self._started_at = self._clock.now()
        self._wake = asyncio.Event()
        self._is_stopping = self.counters.pulse.is_stopping = False
        self._is_verbose = False
        self._quiet = asyncio.Event()
        self._running: dict[str, Attempt] = {}
        self._occupied = 0
        self._ran: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._confirming: asyncio.Task[None] | None = None
        self._hand = Hand()
        self._settler = Settler(
            self._store,
            self._hand,
            self.counters,
            self._settlements_written,
            self._wake.set,  # the bell would tell us too, but later
        )
        self._concluder = Concluder(
            self._store,
            self._hand,
            self._settler,
            self.counters,
            lambda: self._settlements_written(()),
            self._backoffs,
        )
        self._heartbeater = self._heartbeater_class(
            self._store, self._hand, self.counters, self._lost_elsewhere
        )
        self._executor = Executor(
            self._store,
            self._tasks,
            counters=self.counters,
            tracing=self._tracing,
            on_end=self._attempt_ended,
            on_return=self._attempt_returned,
        )
        self._fetcher = Fetcher(
            self._store,
            self._hand,
            self.counters,
            worker=self.id,
            types=frozenset(self._tasks),
            queues=self._queues,
            lease_ttl=self._lease_ttl,
            concurrency=self._concurrency,
            # A start is counted when it is claimed: what waited in our hand would start later.
            prefetch=0 if self._has_rates else self._prefetch,
            may_block=owns_loop,
            on_lost=self._lost,
        )
        self._loader = Loader(self._store, self._tasks, self.counters, self._refused)
        self._maintenance = Maintenance(
            self._store, worker=self.id, retention=self._retention, counters=self.counters
        )
        self._ticker: Ticker | None = None
        if self._crons:
            from fencepost.maintenance import Ticker

            self._ticker = Ticker(self._store, self._crons, self.counters)

    @property
    def _has_rates(self) -> bool:
        return any(task.rate is not None for task in self._tasks.values())

    def _cron_services(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return [] if self._ticker is None else [("crons", self._ticker.start())]

    def _watch_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError):
                    self._loop.add_signal_handler(number, self.stop)

    def _heed_stop(self) -> None:
        self._is_stopping = self.counters.pulse.is_stopping = True
        self._wake.set()
        self._quiet.set()

    async def _tear_down(self, services: list[asyncio.Task[Any]]) -> None:
        for service in services:
            service.cancel()
        self._concluder.close()
        await asyncio.gather(*services, return_exceptions=True)
        await self._heartbeater.stop_async()
        self._executor.close()
        # Both are courtesies: whoever is silent is forgotten, and a term runs out.
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._store.run_async(self._store.retire(self.id))
                await self._maintenance.resign()
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.remove_signal_handler(number)
        with self._stop_mutex:
            self._loop = None
            self._stop_requests = 0
        log(names.WORKER_STOPPED, worker=self.id)

    # Claiming and starting.

    async def _recover_at_start(self) -> None:
        """Drain leases that ran out while nobody looked (S4-19)."""
        with suppress(StoreError):
            while await self._store.run_async(self._store.recover(RECOVER_BATCH)):
                await asyncio.shield(self._clock.sleep_async(0))

    async def _work(self) -> None:
        """Claim and start until told to stop."""
        while not self._is_stopping:
            self._wake.clear()
            self._fill_slots()
            limit = self._fetcher.wanted(self._occupied)
            if limit <= 0:
                await self._wake.wait()
                continue
            # What is settled while we ask may let others go, of which the answer does not know.
            had_nothing = not self._hand
            claim = await self._fetcher.claim(limit)
            if claim is None:
                continue
            for lease_ttl in {job.lease_ttl for job in claim.jobs}:
                self._heartbeater.expect(lease_ttl)
            self._is_verbose = logger.isEnabledFor(logging.DEBUG)
            self._fill_slots()
            if not claim.jobs:
                if had_nothing and self._is_done():
                    return
                await self._rest(self._fetcher.pause_after(claim))

    def _is_done(self) -> bool:
        return self._until_idle and not self._running and self._settler.is_idle and not self._hand

    async def _rest(self, seconds: float) -> None:
        """Wait for news: a bell, a slot, a stop; at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _fill_slots(self) -> None:
        """Start waiting jobs in free slots."""
        waiting = self._hand.waiting
        while waiting and self._occupied < self._concurrency and self._confirming is None:
            if self._is_stopping:
                return  # what a claim brought meanwhile is given back
            held = waiting[0]
            # One that the heartbeat lost goes first: it would be asked after again and again.
            if not held.is_dropped:
                if held.heard_at < self._clock.monotonic() - FRESH_CLAIM:
                    self._confirming = asyncio.create_task(self._confirm_waiting())
                    return
                if held.job.has_dependencies and not self._is_loaded(held):
                    self._confirming = asyncio.create_task(self._load_waiting())
                    return
                waiting.popleft()
                self._start(held)
            else:
                waiting.popleft()

    async def _confirm_waiting(self) -> None:
        """Ask the store whether jobs that have waited are still ours (S3-10), then go on."""
        batch = [held for held in self._hand.waiting if not held.is_dropped]
        sent_at = self._clock.monotonic()
        beats = [Beat(h.job.id, h.job.lease.token, h.job.lease_ttl) for h in batch]
        try:
            replies = await self._store.run_async(self._store.heartbeat(beats))
        except Exception:  # noqa: BLE001 - whatever it is, or no slot would ever be filled again
            await self._clock.sleep_async(FRESH_CLAIM)
        else:
            self._heartbeater.apply(batch, replies, sent_at)
            heard_at = self._clock.monotonic()
            for held in batch:
                held.heard_at = heard_at
        self._confirming = None
        self._wake.set()
        self._fill_slots()

    def _is_loaded(self, held: Held) -> bool:
        """Tell whether a job has what its handler may ask for; see to it if that holds up nobody.

        As for a claim: with nothing else in hand, on a loop of our own, this spares two hops.
        """
        waiting = self._hand.waiting
        if self._loader.owes(held) and self._owns_loop and len(self._hand) == len(waiting):
            self._loader.load_here(waiting)
        return not self._loader.owes(held)

    async def _load_waiting(self) -> None:
        """Load what waiting jobs have waited for, then go on."""
        try:
            await self._loader.load(list(self._hand.waiting))
        finally:
            self._confirming = None
        self._wake.set()
        self._fill_slots()

    def _refused(self, held: Held, error: Exception) -> None:
        """What a job waited for cannot be loaded: its attempt has failed before its start."""
        if held not in self._hand.waiting:
            return  # given back meanwhile
        self._hand.waiting.remove(held)
        decision = decide(held.job, classify(error), self._clock.rng, self._backoffs)
        self._settler.add(settlement_of(held.job, decision))

    def _start(self, held: Held) -> None:
        job = held.job
        self._occupied += 1
        attempt = self._executor.start(job, held.dependencies or ())
        held.attempt = attempt
        self._running[job.lease.token] = attempt
        if self._is_verbose:
            log(
                names.ATTEMPT_STARTED,
                level=logging.DEBUG,
                id=job.id,
                type=job.type,
                attempt=job.attempt,
                correlation_id=job.correlation_id,
            )

    # Ending.

    def _attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """An attempt has its outcome; its handler may still be on its way back."""
        job = attempt.job
        self._running.pop(job.lease.token, None)
        if self._is_stopping:
            self._quiet.set()  # a handler that never comes back is not waited for
        seconds = self._clock.monotonic() - attempt.started_at
        self._fetcher.note_duration(seconds)
        self._ran[job.type, job.queue].append(seconds)
        if outcome is None:
            self._note_runs()  # nothing will be written that would have it noted
            self._hand.drop(job.id, job.lease.token)
            self.counters.add(names.ATTEMPT_INTERRUPTED, reason=str(attempt.context.cancel_reason))
        elif attempt.context.has_joined:
            self._concluder.add(attempt, outcome)
        else:
            decision = decide(job, outcome, self._clock.rng, self._backoffs)
            self._settler.add(settlement_of(job, decision))
        if outcome is None or self._is_verbose:
            log(
                names.ATTEMPT_ENDED if outcome is not None else names.ATTEMPT_INTERRUPTED,
                level=logging.DEBUG if outcome is not None else logging.WARNING,
                id=job.id,
                type=job.type,
                attempt=job.attempt,
                seconds=seconds,
                reason=attempt.context.cancel_reason,
                correlation_id=job.correlation_id,
            )

    def _attempt_returned(self) -> None:
        """A handler has come back, and its slot is free."""
        self._occupied -= 1
        if not self._running:
            self._quiet.set()
        if self._hand.waiting:
            self._fill_slots()
        # Waking for every job would cost more than most no-op jobs do.
        if self._fetcher.is_low:
            self._wake.set()

    def _settlements_written(self, settlements: Sequence[Settlement]) -> None:
        """Look again if a claim waited for this, if a job will come back, or if all is done."""
        self._note_runs()
        if (
            self._fetcher.is_held_up
            or (self._until_idle and not self._hand)
            or any(
                s.decision.event is not Event.SUCCEED and not s.decision.state.is_terminal
                for s in settlements
            )
        ):
            self._wake.set()

    def _note_runs(self) -> None:
        """Pass on how long attempts took: by the batch, since each by itself would cost more."""
        ran, self._ran = self._ran, defaultdict(list)
        for lane, seconds in ran.items():
            self.counters.runs.note(lane, seconds)

    def _lost_elsewhere(self, held: Held, reason: CancelReason) -> None:
        """The heartbeat thread says that a job is lost; pass it on to the loop."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._lost, held, reason)

    def _lost(self, held: Held, reason: CancelReason) -> None:
        self.counters.add(names.LEASE_LOST, reason=reason)
        log(names.LEASE_LOST, level=logging.WARNING, id=held.job.id, reason=reason)
        if held.attempt is not None:
            held.attempt.interrupt(reason)

    # Stopping.

    async def _drain(self) -> None:
        """Give back what has not started, let the rest finish within grace, then release it."""
        log(names.WORKER_STOPPING, worker=self.id, running=len(self._running))
        for held in self._hand.waiting:
            if not held.is_dropped:
                decision = decide(held.job, Released(), self._clock.rng)
                self._settler.add(settlement_of(held.job, decision))
        self._hand.waiting.clear()
        await self._until_quiet(self._grace)
        for attempt in list(self._running.values()):
            attempt.interrupt("shutdown")
        await self._until_quiet(min(INTERRUPT_GRACE, self._grace))
        for attempt in list(self._running.values()):
            attempt.give_up()
        await self._until_settled()

    async def _until_quiet(self, seconds: float) -> None:
        """Wait until nothing runs, for *seconds* at most; a second stop does not wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running and self._stop_requests < 2:
                    self._quiet.clear()
                    await self._quiet.wait()

    async def _until_settled(self) -> None:
        """Wait for the last settlements to be recorded; leases cover what the store refuses."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._grace, 1.0)):
                while not (self._concluder.is_idle and self._settler.is_idle):
                    await self._clock.sleep_async(0.005)

    # Services.

    def _describe(self) -> WorkerInfo:
        return WorkerInfo(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self._queues,
            types=tuple(sorted(self._tasks)),
            concurrency=self._concurrency,
            started_at=self._started_at,
            running=len(self._running),
        )

    async def _listen(self) -> None:
        """Wake the fetcher when the store rings."""
        listener = self._store.listen(Topic.READY)
        try:
            while True:
                if await listener.wait_async(POLL_INTERVAL):
                    self._wake.set()
        finally:
            listener.close()


class AsyncWorker:
    """The awaited face of Worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self, until_idle: bool = False) -> None:
        """Run jobs on this event loop until stopped or until nothing is claimable."""
        await self._worker.run_async(until_idle)


def _check_count(name: str, value: object, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {minimum} and {maximum}, got {shown(value)}"
        )
