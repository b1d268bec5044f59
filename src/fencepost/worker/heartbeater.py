"""Keeps leases alive, in a thread of its own: a handler that blocks the loop cannot starve it.

A beat that reports a lost lease interrupts that handler at once. If the store cannot be reached for
so long that a lease must have run out, the handler is interrupted just the same (S2-32).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from fencepost.core.lifecycle import State
from fencepost.core.limits import HEARTBEAT_PAUSE_MAX, SETTLE_MAX
from fencepost.observe.counters import Counters
from fencepost.store.protocol import Store
from fencepost.store.replies import Extended, HeartbeatReply
from fencepost.store.requests import Beat
from fencepost.worker.context import CancelReason
from fencepost.worker.hand import Hand, Held
from fencepost.worker.patience import Patience

BEATS_PER_TTL = 3

OnLost = Callable[[Held, CancelReason], None]


class Heartbeater:
    """Beats for every job in hand, started or not, a third of its TTL after the last time."""

    def __init__(self, store: Store, hand: Hand, counters: Counters, on_lost: OnLost) -> None:
        self._store = store
        self._hand = hand
        self._on_lost = on_lost
        self._patience = Patience("heartbeat", counters, store.clock.rng)
        self._wake = threading.Event()
        self._is_stopping = False
        self._pause = HEARTBEAT_PAUSE_MAX
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Beat in a thread until stopped."""
        self._thread = threading.Thread(target=self._beat_on, name="fencepost-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def expect(self, lease_ttl: float) -> None:
        """Say that a job with this TTL has come, in case that is sooner than the next pass."""
        if lease_ttl / BEATS_PER_TTL < self._pause:
            self._wake.set()

    def _beat_on(self) -> None:
        while not self._is_stopping:
            self._pause = self.step()
            self._wake.wait(self._pause)
            self._wake.clear()

    def step(self) -> float:
        """Make one pass over what is due; return how long to wait until the next."""
        now = self._store.clock.monotonic()
        held = self._hand.everything()
        due = [each for each in held if now >= each.confirmed_at + _interval(each)]
        for start in range(0, len(due), SETTLE_MAX):
            batch = due[start : start + SETTLE_MAX]
            try:
                self.beat(batch)
            except Exception as error:  # noqa: BLE001 - or every lease in hand would run out
                self._lose_expired()
                return max(min(self._patience.failed(error), self._time_left()), 0.01)
        self._patience.succeeded()
        now = self._store.clock.monotonic()
        waits = [each.confirmed_at + _interval(each) - now for each in self._hand.everything()]
        return max(min([*waits, HEARTBEAT_PAUSE_MAX]), 0.01)

    def beat(self, batch: list[Held]) -> None:
        """Extend the leases of *batch* now; what is lost is let go of and interrupted."""
        sent_at = self._store.clock.monotonic()
        beats = [Beat(h.job.id, h.job.lease.token, h.job.lease_ttl) for h in batch]
        replies = self._store.run(self._store.heartbeat(beats))
        self.apply(batch, replies, sent_at)

    def apply(self, batch: list[Held], replies: list[HeartbeatReply], sent_at: float) -> None:
        """Note what the store answered to beats sent at *sent_at*."""
        for held, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Extended):
                held.confirmed_at = sent_at
                if held.attempt is not None:
                    held.attempt.context.extend(reply.expires_at)
            else:
                self._lose(held, "cancelled" if reply.state is State.CANCELLED else "lease_lost")

    def _lose_expired(self) -> None:
        now = self._store.clock.monotonic()
        for each in self._hand.everything():
            if now >= each.confirmed_at + each.job.lease_ttl:
                self._lose(each, "lease_lost")

    def _time_left(self) -> float:
        """Return how long the lease lasts that runs out first."""
        now = self._store.clock.monotonic()
        ends = [each.confirmed_at + each.job.lease_ttl for each in self._hand.everything()]
        return min(ends, default=math.inf) - now

    def _lose(self, held: Held, reason: CancelReason) -> None:
        if self._hand.drop(held.job.id, held.job.lease.token) is not None:
            self._on_lost(held, reason)


def _interval(held: Held) -> float:
    return held.job.lease_ttl / BEATS_PER_TTL
