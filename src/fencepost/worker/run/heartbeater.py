"""Extends leases, in a separate thread: a handler that blocks the loop cannot stop it.

If the store answers that a lease is lost, its handler is interrupted at once. If the store cannot
be reached for so long that a lease must have expired, its handler is interrupted as well (S2-32).

A pass is a script of store operations, which the thread drives, blocking. A simulation drives the
same script on a loop of simulated time.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from msgspec.structs import replace

from fencepost.core.bounds import HEARTBEAT_PAUSE_MAX, SETTLE_MAX
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.generators import drive
from fencepost.observe.counters import Counters
from fencepost.store.interface.joins import Fate, Joined
from fencepost.store.interface.queue import Beat, Extended, HeartbeatReply
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.inflight import InFlight, InFlightJob

BEATS_PER_TTL = 3
WATCH_INTERVAL = 0.25
STOP_WAIT = 2.0
"""Seconds for which a stop waits for the last pass: a store that hangs may take a minute."""

OnLost = Callable[[InFlightJob, CancelReason], None]

T = TypeVar("T")


Beating = Generator[Operation[Any], Any, T]
"""Yields what the store is to do next, and is sent its reply, or thrown its error."""


def beat_of(job: ClaimedJob, lease_ttl: float) -> Beat:
    """Return what extends the lease of *job*."""
    return Beat(job.id, job.lease.token, lease_ttl, job.lease.version)


class Heartbeater:
    """Extends the lease of every job in flight, a third of its TTL after the last time."""

    def __init__(
        self, store: Store, inflight: InFlight, counters: Counters, on_lost: OnLost
    ) -> None:
        self._store = store
        self._inflight = inflight
        self._on_lost = on_lost
        self._backoff = StoreBackoff("heartbeat", counters, store.clock.rng)
        self._wake = threading.Event()
        self._is_stopping = False
        self.shortest_ttl = HEARTBEAT_PAUSE_MAX * BEATS_PER_TTL
        """A shorter lease is due before the next pass: then call ``wake``."""
        self._thread: threading.Thread | None = None
        self._asking_since: float | None = None
        """When the pass began that waits for the store."""

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._beat_on, name="fencepost-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make no more passes; one that waits for the store ends a little later."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_WAIT)

    async def stop_async(self) -> None:
        """Stop without blocking the loop: the last pass may wait for the store."""
        await asyncio.to_thread(self.stop)

    def wake(self) -> None:
        """Make the next pass now: a lease has come that is due before it."""
        self._wake.set()

    def _beat_on(self) -> None:
        while not self._is_stopping:
            pause = self.step()
            self.shortest_ttl = pause * BEATS_PER_TTL
            self._wake.wait(pause)
            self._wake.clear()

    def step(self) -> float:
        """Make one pass over what is due; return how long to wait until the next."""
        return drive(self.beating(), self._store.run)

    async def watch(self) -> None:
        """Drop jobs whose leases expire while the store does not answer at all; forever.

        A server that hangs, or a network that drops packets, is noticed only after a minute.
        """
        seen: float | None = None
        while True:
            await self._store.clock.sleep_async(WATCH_INTERVAL)
            # Seen twice: a process that was paused for long first gets the store's answer.
            if seen is not None and seen == self._asking_since:
                self._lose_expired()
            seen = self._asking_since

    def beating(self) -> Beating[float]:
        """Return the script of ``step``."""
        now = self._store.clock.monotonic()
        held = self._inflight.everything()
        due = [each for each in held if now >= each.confirmed_at + _interval(each)]
        for start in range(0, len(due), SETTLE_MAX):
            batch = due[start : start + SETTLE_MAX]
            self._asking_since = now
            try:
                rest = yield from self._without_joined(batch)
                yield from self._beat(rest)
            except Exception as error:  # noqa: BLE001 - or every lease would run out
                self._lose_expired()
                return max(min(self._backoff.failed(error), self._time_left()), 0.01)
            finally:
                self._asking_since = None
        self._backoff.succeeded()
        now = self._store.clock.monotonic()
        waits = [each.confirmed_at + _interval(each) - now for each in self._inflight.everything()]
        return max(min([*waits, HEARTBEAT_PAUSE_MAX]), 0.01)

    def _without_joined(self, batch: list[InFlightJob]) -> Beating[list[InFlightJob]]:
        """Return *batch* without jobs that a handler's own transaction completes, or has.

        While that is open it locks the lease: a heartbeat would wait for it, and all others too.
        No other worker can take the job meanwhile.
        """
        joined: list[InFlightJob] = []
        asked: list[Joined] = []
        rest: list[InFlightJob] = []
        for held in batch:
            if held.attempt is not None and held.attempt.state.marks:
                joined.append(held)
                asked.append(held.attempt.state.joined)
            else:
                rest.append(held)
        if not joined:
            return batch
        sent_at = self._store.clock.monotonic()
        fates = yield self._store.joins.fates(asked)
        for held, fate in zip(joined, fates, strict=True):
            match fate:
                case Fate.SETTLED:
                    self._inflight.drop(held.job.id, held.job.lease.token)
                case Fate.OPEN:
                    held.confirmed_at = sent_at
                case Fate.UNDONE:
                    rest.append(held)
        return rest

    def _beat(self, batch: list[InFlightJob]) -> Beating[None]:
        """Extend the leases of *batch* now; drop and interrupt jobs that are lost."""
        if not batch:
            return
        sent_at = self._store.clock.monotonic()
        beats = [beat_of(h.job, h.job.lease_ttl) for h in batch]
        replies = yield self._store.queue.heartbeat(beats)
        self.apply(batch, replies, sent_at)

    def apply(
        self, batch: list[InFlightJob], replies: list[HeartbeatReply], sent_at: float
    ) -> None:
        """Note the replies to heartbeats sent at *sent_at*."""
        for held, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Extended):
                held.confirmed_at = sent_at
                if held.attempt is not None:
                    state = held.attempt.state
                    state.lease = replace(state.lease, expires_at=reply.expires_at)
            elif reply.state is State.COMPLETED and _has_joined(held):
                self._inflight.drop(held.job.id, held.job.lease.token)
            else:
                self._lose(held, "cancelled" if reply.state is State.CANCELLED else "lease_lost")

    def _lose_expired(self) -> None:
        now = self._store.clock.monotonic()
        for each in self._inflight.everything():
            if now >= each.confirmed_at + each.job.lease_ttl:
                self._lose(each, "lease_lost")

    def _time_left(self) -> float:
        """Return how long it is until the first lease expires."""
        now = self._store.clock.monotonic()
        ends = [each.confirmed_at + each.job.lease_ttl for each in self._inflight.everything()]
        return min(ends, default=math.inf) - now

    def _lose(self, held: InFlightJob, reason: CancelReason) -> None:
        if self._inflight.lose(held):
            self._on_lost(held, reason)


def _interval(held: InFlightJob) -> float:
    return held.job.lease_ttl / BEATS_PER_TTL


def _has_joined(held: InFlightJob) -> bool:
    """Return whether the handler has completed the job in its own transaction, or may have."""
    return held.attempt is not None and bool(held.attempt.state.marks)
