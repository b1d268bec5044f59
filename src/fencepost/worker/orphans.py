"""Releases leased jobs whose handlers have not started and never will (C41).

``Orphans`` does so for those that a dead worker of this machine held, ``Unheard`` for those of this
worker's own claims whose replies were lost.

The record of starts says which handlers had started; the store says which jobs it held. So a job
whose claim the worker died over, before it heard the reply, is found as well. A release is a
settlement under the job's own lease, uncounted, and refused like any other if that lease has ended.
What had started is left alone: its lease expires, and that counts as an attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from fencepost.core.bounds import CLAIM_MAX, FAREWELL, ORPHANS_INTERVAL, RECOVER_BATCH
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import RELEASED, Settlement
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.queue import Settled, WorkerLease
from fencepost.store.interface.store import Store
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.starts import DeadRecord, dead_record, records, turn_to_look

RECORDS_MAX = 50
"""Records that are open at once."""
LOOK_AGAIN = 0.02
"""Seconds until the next try, while another process looks."""


class Orphans:
    """Looks for records of dead workers, now and then."""

    def __init__(self, store: Store, folder: Path, counters: Counters | None = None) -> None:
        self._store = store
        self._clock = store.clock
        self._folder = folder
        self._counters = counters or Counters()

    async def watch(self) -> None:
        """Look again and again, forever."""
        while True:
            await self._clock.sleep_async(ORPHANS_INTERVAL)
            await self.step()

    async def look_first(self, *, is_stopping: Callable[[], bool]) -> None:
        """Look before anything is recovered here, even if the store is away for long.

        Others that start now may be looking: what they release must not be recovered meanwhile.
        """
        backoff = StoreBackoff("orphans", self._counters, self._clock.rng)
        since = self._clock.monotonic()
        while not is_stopping():
            try:
                if await self._look() is not None or self._clock.monotonic() - since > FAREWELL:
                    return
                await self._clock.sleep_async(LOOK_AGAIN)
            except StoreError as error:
                await self._clock.sleep_async(backoff.failed(error))
            except OSError:
                return

    async def step(self) -> int:
        """Release what dead workers had not started; return how many jobs."""
        with suppress(StoreError, OSError):
            return await self._look() or 0
        return 0

    async def _look(self) -> int | None:
        """Do so, unless another process is at it; then return None."""
        paths = records(self._folder)
        # Each that is open takes a descriptor.
        parts = [paths[at : at + RECORDS_MAX] for at in range(0, len(paths), RECORDS_MAX)]
        counts = [await self._look_at(part) for part in parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    async def _look_at(self, paths: Iterable[Path]) -> int | None:
        with ExitStack() as stack:
            # Not while the store is asked, which may hang: workers of other stores look here, too.
            with turn_to_look(self._folder) as is_ours:
                if not is_ours:
                    return None
                found = [stack.enter_context(dead_record(path)) for path in paths]
            dead = {record.worker: record for record in found if record is not None}
            released = await self._release(dead) if dead else 0
            for record in dead.values():
                record.tidy(self._clock.now().timestamp())
        return released

    async def _release(self, dead: Mapping[str, DeadRecord]) -> int:
        held = await self._store.run_async(self._store.queue.held(list(dead)))
        orphans = [lease for lease in held if not dead[lease.worker].has_started(lease.token)]
        released = await release(self._store, orphans)
        if released == len(orphans):
            return released
        # No worker was here before those leases ended, and nobody has recovered them yet.
        unstarted = {lease.token for lease in orphans}
        while moves := await self._store.run_async(
            self._store.upkeep.recover(RECOVER_BATCH, unstarted)
        ):
            released += sum(move.state is State.SCHEDULED for move in moves)
        return released


class Unheard:
    """Looks for jobs of claims whose replies were lost, before the next claims.

    The store has leased them to this worker, which has never heard of them. It looks again and
    again for as long as a lease lasts: the server may still be working on the lost claim.
    """

    def __init__(self, store: Store, inflight: InFlight, *, worker: str, lease_ttl: float) -> None:
        self._store = store
        self._clock = store.clock
        self._inflight = inflight
        self._worker = worker
        self._lease_ttl = lease_ttl
        self._since: float | None = None
        """When a claim failed last, if it is not long ago."""
        self._look_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether there can be no such job."""
        return self._since is None

    def note(self) -> None:
        """Note that a claim has failed, and may have been done."""
        self._since = self._look_at = self._clock.monotonic()

    async def step(self) -> int:
        """Release them, if it is time to look; return how many. For when no claim is under way."""
        now = self._clock.monotonic()
        if self._since is None or now < self._look_at:
            return 0
        with suppress(StoreError):
            held = await self._store.run_async(self._store.queue.held([self._worker]))
            known = self._inflight.known()
            count = await release(self._store, [e for e in held if e.token not in known])
            self._look_at = now + ORPHANS_INTERVAL
            if now >= self._since + self._lease_ttl:
                self._since = None
            return count
        return 0


async def release(store: Store, leases: Iterable[WorkerLease]) -> int:
    """Release jobs that have not started; return how many leases were still good."""
    orphans = list(leases)
    count = 0
    for start in range(0, len(orphans), CLAIM_MAX):
        part = orphans[start : start + CLAIM_MAX]
        settlements = [Settlement(lease.job_id, lease.token, RELEASED) for lease in part]
        replies = await store.run_async(store.queue.settle(settlements))
        count += sum(isinstance(reply, Settled) for reply in replies)
    if count:
        workers = sorted({lease.worker for lease in orphans})
        log(names.ORPHANS_RELEASED, level=logging.WARNING, jobs=count, workers=workers)
    return count
