"""A worker: one process, some slots, and the services that keep them busy."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    FAREWELL,
    GATHER,
    GRACE_DEFAULT,
    HURRIED_FAREWELL,
    INTERRUPT_GRACE,
    POLL_INTERVAL,
    RECOVER_BATCH,
    THREADS_FAREWELL,
    WORKER_LEASE_TTL_DEFAULT,
)
from fencepost.core.display import shown, shown_url
from fencepost.core.job.failure import classify
from fencepost.core.job.lifecycle import Event
from fencepost.core.job.outcome import (
    Outcome,
    Released,
    Settlement,
    Unreadable,
    decide,
    settlement_of,
)
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import parse_lease_ttl
from fencepost.core.limits.weights import parse_weights
from fencepost.core.retention import Retention
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.errors import ConfigurationError, StoreError
from fencepost.maintenance import Maintenance
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log, logger
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.store import Store
from fencepost.worker.monitor.lag import measure_lag
from fencepost.worker.monitor.presence import announce
from fencepost.worker.run.attempt import Attempt
from fencepost.worker.run.backoff import Backoffs
from fencepost.worker.run.conclusion import Concluder
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.executor import Executor
from fencepost.worker.run.fetcher import Fetcher
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import Hand, Held
from fencepost.worker.run.rates import declare_rates
from fencepost.worker.run.reach import Reach
from fencepost.worker.run.results import Loader
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.switch_interval import short_turns

if TYPE_CHECKING:
    from fencepost.core.cron.cron import Cron
    from fencepost.maintenance import Ticker
    from fencepost.observe.tracing import Tracing


SETTLER_TURNS = 4
"""Turns of the loop in which the settler hears of what has ended, and the store of that."""


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
        self.id = id or f"{socket.gethostname()}-{os.getpid()}-{store.clock.new_id().hex()[:8]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requests = 0
        self._stop_mutex = threading.Lock()
        self.is_replaceable = False
        """Whether somebody starts another in our place if we end: then a thread that cannot be
        stopped ends with this process, once its other jobs are done."""
        self.is_retiring = False
        """Whether the last run ended for that, and wants another in its place."""

    @property
    def aio(self) -> AsyncWorker:
        """``await worker.aio.run()`` runs it on the present event loop."""
        return AsyncWorker(self)

    # Running and stopping.

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
                loop.call_soon_threadsafe(self._heed_stop)

    async def run_async(self, until_idle: bool = False, *, owns_loop: bool = False) -> None:
        """As ``run``, on the present event loop, which may have others to serve.

        Cancelled, it interrupts what runs, gives it back, and ends all that it has started before
        the CancelledError goes on. Cancelled again, it waits for nothing that takes long.
        """
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
        # In tasks of their own, so that a cancellation tears nothing: a claim that is under way
        # brings jobs, and whoever stops has to know of them.
        working = asyncio.create_task(self._work_on(), name="fencepost-work")
        try:
            await self._see_through(working)
        finally:
            ending = asyncio.create_task(self._end(services), name="fencepost-end")
            await self._see_through(ending)
        if self._cancels:
            raise asyncio.CancelledError

    async def _work_on(self) -> None:
        await self._recover_at_start()
        await declare_rates(
            self._store, self._tasks, self.counters, is_stopping=lambda: self._is_stopping
        )
        await self._work()

    async def _end(self, services: list[asyncio.Task[Any]]) -> None:
        try:
            await self._drain(services[0])
        finally:
            await self._tear_down(services)

    async def _see_through(self, task: asyncio.Task[None]) -> None:
        """Wait for *task* although we are cancelled; have it stop then, and the second time hurry.

        What it raises is raised here, unless we are cancelled: that goes first.
        """
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                self._cancels += 1
                self._heed_stop()
                if self._cancels > 1 and task.get_name() == "fencepost-work":
                    task.cancel()  # it waits for a store that does not answer
        if not task.cancelled() and not self._cancels:
            task.result()

    @property
    def _haste(self) -> int:
        """0: what runs may finish within grace; 1: it is interrupted now; 2: nobody waits."""
        return 2 if self._stop_requests > 1 else min(self._cancels, 2)

    def _set_up(self, until_idle: bool, owns_loop: bool) -> None:
        """Make everything that belongs to one run."""
        self._until_idle = until_idle
        self._owns_loop = owns_loop
        self._started_at = self._clock.now()
        self._wake = asyncio.Event()
        self._is_stopping = self.counters.pulse.is_stopping = self.is_retiring = False
        self._cancels = 0
        self._is_verbose = False
        self._quiet = asyncio.Event()
        self._running: dict[str, Attempt] = {}
        self._occupied = 0
        self._wake_at = self._concurrency
        """How few slots must be occupied for a handler that comes back to be news."""
        self._ran: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._reach = Reach(self._concurrency)
        self._late: list[Held] = []
        """What came too late to begin, until the store has it back."""
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
            on_begin=self._attempt_began,
            on_late=self._came_late,
            on_turn=self._reach.began,
            on_end=self._attempt_ended,
            on_return=self._attempt_returned,
            on_stuck=self._retire,
            is_cancelled=lambda: self._cancels > 0,
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
            may_block=owns_loop,
            on_lost=self._lost,
        )
        self._loader = Loader(
            self._store,
            self._tasks,
            self.counters,
            on_loaded=self._executor.start,
            on_refused=self._refused,
        )
        self._maintenance = Maintenance(
            self._store, worker=self.id, retention=self._retention, counters=self.counters
        )
        self._ticker: Ticker | None = None
        if self._crons:
            from fencepost.maintenance import Ticker

            self._ticker = Ticker(self._store, self._crons, self.counters)

    def _cron_services(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return [] if self._ticker is None else [("crons", self._ticker.start())]

    def _watch_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            assert self._loop is not None
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError):
                    self._loop.add_signal_handler(number, self.stop)

    def _retire(self, attempt: Attempt) -> None:
        """A thread did not stop: have the process end when its other jobs are done."""
        if self._is_stopping or not self.is_replaceable:
            return
        self.is_retiring = True
        log(
            names.WORKER_RETIRING,
            level=logging.WARNING,
            worker=self.id,
            id=attempt.job.id,
            type=attempt.job.type,
            running=len(self._running),
        )
        self._heed_stop()

    def _heed_stop(self) -> None:
        self._is_stopping = self.counters.pulse.is_stopping = True
        # At once: others can run them while this worker still finishes what it has begun.
        self._give_back([*self._loader.take_back(), *self._executor.take_back()])
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
                await self._store.run_async(self._store.cluster.retire(self.id))
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
            while await self._store.run_async(self._store.upkeep.recover(RECOVER_BATCH)):
                if self._is_stopping:
                    return
                await asyncio.shield(self._clock.sleep_async(0))

    async def _work(self) -> None:
        """Claim and start until told to stop."""
        while not self._is_stopping:
            self._wake.clear()
            await self._gather()
            limit = min(self._fetcher.wanted(self._occupied), self._reach.bound)
            # Or what is on its way back would be passed over by what stands behind it in line.
            if limit <= 0 or self._is_giving_back():
                await self._wake.wait()
                continue
            blocks = self._fetcher.may_block(self._occupied)
            if blocks:
                await self._see_settled()
            # What is settled while we ask may let others go, of which the answer does not know.
            had_nothing = not self._hand
            fetched = await self._fetcher.claim(limit, blocks=blocks)
            if fetched is None:
                continue
            claim, taken = fetched
            for lease_ttl in {job.lease_ttl for job in claim.jobs}:
                self._heartbeater.expect(lease_ttl)
            self._is_verbose = logger.isEnabledFor(logging.DEBUG)
            if taken:
                self._start(taken)
                # Short handlers end in this turn of the loop, and all their slots are filled at
                # once: a claim costs nearly the same for one job as for twenty.
                await self._clock.sleep_async(0)
            elif had_nothing and self._is_done():
                return
            else:
                await self._rest(self._fetcher.pause_after(claim))

    def _is_giving_back(self) -> bool:
        self._late = [held for held in self._late if not held.is_dropped]
        return bool(self._late)

    async def _see_settled(self) -> None:
        """Let what has ended be on its way to the store before the loop is blocked.

        A claim may hang, and leases run out meanwhile; a write that was posted goes on by itself.
        """
        if self._settler.is_behind:
            for _ in range(SETTLER_TURNS):
                await self._clock.sleep_async(0)

    async def _gather(self) -> None:
        """Wait a moment until half of the slots are free, unless none is.

        A claim costs nearly the same for one job as for ten. A thread comes back by itself, and so
        short jobs in threads would be claimed one by one.
        """
        if not self._concurrency // 2 < self._occupied < self._concurrency:
            return
        self._wake_at = self._concurrency // 2
        await self._rest(GATHER)
        self._wake_at = self._concurrency

    def _is_done(self) -> bool:
        return self._until_idle and not self._running and self._settler.is_idle and not self._hand

    async def _rest(self, seconds: float) -> None:
        """Wait for news: a bell, a slot, a stop; at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _start(self, taken: list[Held]) -> None:
        """Start what a claim has brought; there is a free slot for each."""
        self._occupied += len(taken)
        if self._is_stopping:
            self._give_back(taken)
            return
        self._reach.claimed()
        if self._reach.must_begin:
            taken[0].start_by = math.inf
        if owed := [held for held in taken if self._loader.owes(held)]:
            self._load(owed)
            taken = [held for held in taken if not self._loader.owes(held)]
        self._executor.start(taken)

    def _load(self, owed: Sequence[Held]) -> None:
        """Load what jobs have waited for; in this thread if that holds up nobody, as a claim is."""
        for held in owed:
            held.start_by = math.inf  # its attempt begins with this
        if self._owns_loop and not self._running:
            self._loader.load_here(owed)
        late = [held for held in owed if self._loader.owes(held)]
        if late:
            self._loader.add(late)

    def _refused(self, held: Held, error: Exception) -> None:
        """What a job waited for cannot be loaded: its attempt has failed before its start."""
        decision = decide(held.job, classify(error), self._clock.rng, self._backoffs)
        self._settler.add(settlement_of(held.job, decision))
        self._attempt_returned()

    def _attempt_began(self, attempt: Attempt) -> None:
        """An attempt's handler is about to be called."""
        job = attempt.job
        self._reach.vain = 0
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

    def _came_late(self, held: Held) -> None:
        """A handler could not begin in time, because others have kept the loop busy."""
        self.counters.add(names.ATTEMPT_LATE)
        self._reach.came_late()
        self._fetcher.unturn()
        self._late.append(held)
        self._give_back([held])

    def _give_back(self, jobs: Iterable[Held]) -> None:
        """Have jobs released that have not begun: uncounted, in their old place in line."""
        for held in jobs:
            if not held.is_dropped:
                decision = decide(held.job, Released(), self._clock.rng)
                self._settler.add(settlement_of(held.job, decision))
            self._attempt_returned()

    # Ending.

    def _attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """An attempt has its outcome; its handler may still be on its way back."""
        job = attempt.job
        self._running.pop(job.lease.token, None)
        if self._is_stopping:
            self._quiet.set()  # a handler that never comes back is not waited for
        seconds = self._clock.monotonic() - attempt.started_at
        self._ran[job.type, job.queue].append(seconds)
        if outcome is None:
            self._note_runs()  # nothing will be written that would have it noted
            self._hand.drop(job.id, job.lease.token)
            self.counters.add(names.ATTEMPT_INTERRUPTED, reason=str(attempt.context.cancel_reason))
        elif attempt.context.has_joined or isinstance(outcome, Unreadable):
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
        if self._occupied <= self._wake_at:
            self._wake.set()

    def _settlements_written(self, settlements: Sequence[Settlement]) -> None:
        """Look again if a claim waited for this, if a job will come back, or if all is done."""
        self._note_runs()
        if (
            self._fetcher.is_held_up
            or self._late
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

    async def _drain(self, settling: asyncio.Task[Any]) -> None:
        """Let what has begun finish within grace, then release it."""
        log(names.WORKER_STOPPING, worker=self.id, running=len(self._running))
        if self._cancels and (unseen := await self._fetcher.unseen()) is not None:
            self._occupied += len(unseen.held)
            self._give_back(unseen.held)
        if self.is_retiring:
            # Nobody has asked for it: every other job has the time that its own timeout gives it.
            await self._until_quiet(None, lambda: self._stop_requests > 0 or self._haste > 0)
            self.is_retiring = not self._stop_requests and not self._cancels
        await self._until_quiet(self._grace, lambda: self._haste > 0)
        for attempt in list(self._running.values()):
            attempt.interrupt("shutdown")
            if self._haste:
                self._executor.stop_thread(attempt)
        patience = INTERRUPT_GRACE if self._cancels else min(INTERRUPT_GRACE, self._grace)
        await self._until_quiet(patience, self._is_hurried)
        for attempt in list(self._running.values()):
            self._executor.stop_thread(attempt)
        # Also in a hurry: what was interrupted just now needs a turn of the loop to end.
        farewell = HURRIED_FAREWELL if self._is_hurried() else THREADS_FAREWELL
        await self._until_quiet(farewell, lambda: False)
        for attempt in list(self._running.values()):
            self._executor.give_up(attempt, "shutdown")
        await self._until_settled(settling)

    def _is_hurried(self) -> bool:
        return self._haste > 1

    async def _until_quiet(self, seconds: float | None, is_over: Callable[[], bool]) -> None:
        """Wait until nothing runs, for *seconds* at most, or until *is_over*."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._running and not is_over():
                    self._quiet.clear()
                    await self._quiet.wait()

    async def _until_settled(self, settling: asyncio.Task[Any]) -> None:
        """Wait for the last settlements to be recorded; leases cover what the store refuses."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._grace, 1.0)) as limit:
                is_hurried = False
                while not (self._concluder.is_idle and self._settler.is_idle):
                    if self._is_hurried() and not is_hurried:
                        is_hurried = True
                        limit.reschedule(asyncio.get_running_loop().time() + FAREWELL)
                    if settling.done():  # a loop that is being closed has cancelled all tasks
                        await self._settler.step()
                    else:
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
