"""Keeps the slots filled: claims when some are free, and hands the jobs to the executor.

Before its first claim a worker takes back what expired, and declares the limits of its types. They
live in the store, so that every claimer obeys them, also one that does not know the task. A worker
declares all of its types, also those without limits: what an earlier version of the app had
declared must not outlive it. The worker that starts last decides.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.bounds import (
    FAREWELL,
    LOOK_INTERVAL,
    POLL_INTERVAL,
    RECOVER_BATCH,
    WORKER_TIMEOUT_GRACE,
)
from fencepost.core.job.task import Task
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.interface.store import Store, Topic
from fencepost.store.plan import Operation, Plan
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.orphans import Orphans, Unheard
from fencepost.worker.run.executor import HandlerExecutor
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight, InFlightJob, interrupt_lost
from fencepost.worker.run.settler import Settler, shielded
from fencepost.worker.run.slots import WorkerSlots

SETTLER_TURNS = 4
"""Turns of the loop in which the settler takes up what has ended, and posts it to the store."""
UNBEGUN = 0.1
"""Seconds to wait for a claim that no thread of the store has taken up."""


class Fetcher:
    """Decides when to claim, and how many jobs."""

    def __init__(
        self,
        store: Store,
        claimer: Claimer,
        executor: HandlerExecutor,
        *,
        inflight: InFlight,
        slots: WorkerSlots,
        settler: Settler,
        heartbeater: Heartbeater,
        orphans: Orphans | None,
        unheard: Unheard | None,
        may_block: bool,
    ) -> None:
        self._store = store
        self._claimer = claimer
        self._executor = executor
        self._shutdown = executor.shutdown
        self._inflight = inflight
        self._slots = slots
        self._settler = settler
        self._heartbeater = heartbeater
        self._orphans = orphans
        self._unheard = unheard
        self._may_block = may_block
        self.has_looked = asyncio.Event()
        """Set once the jobs of dead workers are released, so that leases may be recovered."""

    async def run(self) -> None:
        """Claim and start until the worker stops or, until idle, until nothing is claimable."""
        slots = self._slots
        if self._orphans is not None:
            await self._orphans.look_first(is_stopping=lambda: self._shutdown.is_stopping)
            if self._shutdown.is_stopping:
                return
        self.has_looked.set()
        await self._executor.warm_up()
        await self._recover_expired()
        tasks, counters = self._executor.tasks, self._executor.counters
        await declare_limits(
            self._store, tasks, counters, is_stopping=lambda: self._shutdown.is_stopping
        )
        while not self._shutdown.is_stopping:
            slots.news.clear()
            await slots.gather()
            limit = slots.wanted()
            if slots.turn >= slots.share:
                self._shutdown.retire_at_limit("max_jobs", slots)
                if slots.taken <= len(self._executor.leaked):
                    return
            # Wait for late jobs to be given back, or those behind them in line would overtake.
            if limit <= 0 or slots.is_giving_back():
                await slots.news.wait()
                continue
            if self._unheard is not None and await self._unheard.step():
                slots.has_returned = True
            # With every slot free, on a loop of our own, there is no handler that a blocked loop
            # could hold up. It saves two hops between threads: short jobs drain half as fast again.
            blocks = self._may_block and not slots.taken
            if blocks and not self._store.hands_over:
                await self._see_settled()
            # A job that is settled while we ask may release others, which the answer then lacks.
            had_nothing = not self._inflight.held
            fetched = await self._claimer.claim(limit, self._settler.post if blocks else None)
            if fetched is None:
                if self._unheard is not None:
                    self._unheard.note()
                continue
            claim, taken = fetched
            if claim.is_unsure and self._unheard is not None:
                self._unheard.note()
            if any(job.lease_ttl < self._heartbeater.shortest_ttl for job in claim.jobs):
                self._heartbeater.wake()
            if taken:
                self._executor.take(taken)
                # Short handlers end in this turn of the loop, and all their slots are filled at
                # once: a claim costs nearly the same for one job as for twenty.
                await _turn()
            elif had_nothing and self._is_done():
                return
            else:
                await slots.rest(self._claimer.pause_after(claim))

    async def _recover_expired(self) -> None:
        """Recover every job whose lease ran out while no worker looked (S4-19)."""
        store = self._store
        with suppress(StoreError):
            while await store.run_async(store.upkeep.recover(RECOVER_BATCH)):
                if self._shutdown.is_stopping:
                    return
                await asyncio.shield(store.clock.sleep_async(0))

    async def _see_settled(self) -> None:
        """Let the settler post what has ended before the loop is blocked.

        A claim may hang, and leases run out meanwhile; a write that was posted goes on by itself.
        """
        if self._settler.pending and not self._settler.is_writing:
            for _ in range(SETTLER_TURNS):
                await _turn()

    def _is_done(self) -> bool:
        slots, held = self._slots, self._inflight.held
        return slots.until_idle and not slots.running and self._settler.is_idle and not held

    async def listen(self) -> None:
        """Claim again when the store notifies of ready jobs, forever."""
        listener = self._store.listen(Topic.READY)
        try:
            while True:
                if await listener.wait_async(POLL_INTERVAL):
                    self._slots.news.set()
        finally:
            listener.close()


async def _turn() -> None:
    """Let the event loop turn once."""
    await asyncio.sleep(0)  # noqa: TID251 - waits for nothing


class Fetched(NamedTuple):
    """The reply to a claim, and its jobs as they are held."""

    claim: Claim
    held: list[InFlightJob]


class Claimer:
    """Asks the store for jobs, and holds them: none that the store leases is lost on the way."""

    def __init__(
        self,
        store: Store,
        inflight: InFlight,
        counters: Counters,
        slots: WorkerSlots,
        *,
        worker: str,
        types: frozenset[str],
        queues: Mapping[str, int] | None,
        lease_ttl: float,
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._inflight = inflight
        self._counters = counters
        self._slots = slots
        self._backoff = StoreBackoff("claim", counters, store.clock.rng)
        self._worker = worker
        self._types = types
        self._queues = None if queues is None else dict(queues)
        self._lease_ttl = lease_ttl
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._looked_at = -math.inf
        """When the last claim was made that has looked at everything, on the monotonic clock."""
        self._place: int | None = None
        """Where the last claim has ended; None if the next one must look at everything."""
        self.is_asking = False
        """Whether a claim is under way in one of the store's threads."""
        self._has_begun = False
        self._answer: Claim | None = None
        """The reply to the claim under way, noted in the store's thread."""

    async def claim(
        self, limit: int, meanwhile: Callable[[], None] | None = None
    ) -> Fetched | None:
        """Claim up to *limit* jobs and hold them; None when the store is away (waits a while).

        With *meanwhile*, claim in the loop's thread. A store that hands over calls it while it
        waits.
        """
        now = self._clock.monotonic()
        if self._slots.has_returned or now >= self._looked_at + LOOK_INTERVAL:
            self._place = None
        request = ClaimRequest(
            worker=self._worker,
            limit=limit,
            queues=self._queues,
            types=self._types,
            turn=self._slots.turn,
            lease_ttl=self._lease_ttl,
            timeout_grace=WORKER_TIMEOUT_GRACE,
            after=self._place,
        )
        operation = self._store.queue.claim(request)
        self._asked_at = now
        if self._place is None:
            self._looked_at = now
            self._slots.has_returned = False
        try:
            if meanwhile is not None:
                claim = self._store.run(replace(operation, meanwhile=meanwhile))
                self._answered_at = self._clock.monotonic()
            else:
                self.is_asking, self._has_begun, self._answer = True, False, None
                # Shielded: leased jobs must be held, also when we are being stopped.
                claim = await shielded(self._store.run_async(self._noted(operation)))
        except StoreError as error:
            self.is_asking = False
            await self._clock.sleep_async(self._backoff.failed(error))
            return None
        self._backoff.succeeded()
        return self._take(claim)

    async def unseen(self) -> Fetched | None:
        """Return the jobs of a claim whose reply was lost when the loop was closed, if any.

        The store goes on with it in a thread; a claim that has begun there is waited for.
        """
        clock = self._clock
        since = clock.monotonic()
        while self.is_asking and self._answer is None:
            if clock.monotonic() - since > (FAREWELL if self._has_begun else UNBEGUN):
                return None
            await clock.sleep_async(0.005)
        return None if self._answer is None else self._take(self._answer)

    def _take(self, claim: Claim) -> Fetched:
        self.is_asking = False
        self._answer = None
        # With one slot jobs start in the order of submission, also one whose commit came late.
        self._place = claim.place if self._slots.count > 1 else None
        self._slots.turn += len(claim.jobs)
        taken, lost = self._inflight.take(
            claim.jobs, asked_at=self._asked_at, answered_at=self._answered_at
        )
        # A worker that was stopped for longer than a lease may be given its own job again. No
        # heartbeat reaches the old attempt, which is no longer held: it is interrupted here.
        for held in lost:
            interrupt_lost(held, "lease_lost", self._counters)
        return Fetched(claim, taken)

    def _noted(self, operation: Operation[Claim]) -> Operation[Claim]:
        """Note when the store answers, and what: the loop may see that much later, or never."""

        def start() -> Plan[Claim]:
            self._has_begun = True
            claim = yield from operation.start()
            self._answered_at = self._clock.monotonic()
            self._answer = claim
            return claim

        return replace(operation, start=start)

    def pause_after(self, claim: Claim) -> float:
        """Return how long to wait for a notification after a claim that brought too little."""
        poll = self._clock.rng.uniform(0.75, 1.0) * POLL_INTERVAL
        return poll if claim.wait is None else min(poll, claim.wait)


async def declare_limits(
    store: Store, tasks: Mapping[str, Task], counters: Counters, *, is_stopping: Callable[[], bool]
) -> None:
    """Store the limits of *tasks*, however long the store is away: claims come after that."""
    backoff = StoreBackoff("limit_types", counters, store.clock.rng)
    limits = {type: task.limits for type, task in tasks.items()}
    while not is_stopping():
        try:
            await store.run_async(store.settings.limit_types(limits))
        except StoreError as error:
            await store.clock.sleep_async(backoff.failed(error))
        else:
            return
