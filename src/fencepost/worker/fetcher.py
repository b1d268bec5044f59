"""Asks for jobs: as many as there are free slots, and a little ahead when jobs are short."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.core.limits import (
    CLAIM_MAX,
    POLL_INTERVAL,
    PREFETCH_HORIZON,
    PREFETCH_MAX,
    UNSETTLED_MAX,
    WORKER_TIMEOUT_GRACE,
)
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.protocol import Store
from fencepost.store.replies import Claim
from fencepost.store.requests import ClaimRequest
from fencepost.worker.context import CancelReason
from fencepost.worker.hand import Hand, Held
from fencepost.worker.patience import Patience
from fencepost.worker.shielding import shielded

OnLost = Callable[[Held, CancelReason], None]

SMOOTHING = 0.05
"""The weight of the newest attempt in the running mean of durations."""


class Fetcher:
    """Claims jobs into the hand."""

    def __init__(
        self,
        store: Store,
        hand: Hand,
        counters: Counters,
        *,
        worker: str,
        types: frozenset[str],
        queues: Mapping[str, int] | None,
        lease_ttl: float,
        concurrency: int,
        prefetch: int | None,
        may_block: bool = False,
        on_lost: OnLost = lambda _, __: None,
    ) -> None:
        self._store = store
        self._hand = hand
        self._patience = Patience("claim", counters, store.clock.rng)
        self._worker = worker
        self._types = types
        self._queues = None if queues is None else dict(queues)
        self._lease_ttl = lease_ttl
        self._concurrency = concurrency
        self._fixed_prefetch = prefetch
        self._may_block = may_block
        self._on_lost = on_lost
        self._mean_duration: float | None = None
        self._turn = 0
        self._low_mark = 0
        self.is_held_up = False
        """Whether settlements have to be written before more is claimed."""

    def note_duration(self, seconds: float) -> None:
        """Learn how long attempts take, which decides how far to claim ahead."""
        if self._mean_duration is None:
            self._mean_duration = seconds
        else:
            self._mean_duration += SMOOTHING * (seconds - self._mean_duration)

    @property
    def prefetch(self) -> int:
        """How many jobs to hold beyond those running: what the slots do within the horizon."""
        if self._fixed_prefetch is not None:
            return self._fixed_prefetch
        mean = self._mean_duration
        if mean is None or mean >= PREFETCH_HORIZON:
            return 0
        return min(int(self._concurrency * PREFETCH_HORIZON / max(mean, 1e-6)), PREFETCH_MAX)

    @property
    def is_low(self) -> bool:
        """True when so few jobs wait that ``wanted`` is worth asking; asked after every job."""
        return len(self._hand.waiting) <= self._low_mark

    def wanted(self, occupied: int) -> int:
        """Return how many jobs to claim now; 0 while it is not yet worth a round trip."""
        prefetch = self.prefetch
        waiting = len(self._hand.waiting)
        free = self._concurrency - occupied - waiting
        self._low_mark = prefetch // 2
        # Jobs that have ended but are not recorded would all run again if this process died.
        self.is_held_up = len(self._hand) - waiting - occupied > UNSETTLED_MAX
        if self.is_held_up:
            return 0
        if free <= 0 and waiting > self._low_mark:
            return 0
        return min(max(free + prefetch, 0), CLAIM_MAX)

    async def claim(self, limit: int) -> Claim | None:
        """Claim up to *limit* jobs into the hand; None when the store is away (waits a while).

        With an empty hand, on a loop of our own, there is nothing that a blocked loop could hold
        up: the claim is made in this thread, which spares an idle worker's job two hops.
        """
        request = ClaimRequest(
            worker=self._worker,
            limit=limit,
            queues=self._queues,
            types=self._types,
            turn=self._turn,
            lease_ttl=self._lease_ttl,
            timeout_grace=WORKER_TIMEOUT_GRACE,
        )
        asked_at = self._store.clock.monotonic()
        try:
            if self._may_block and not self._hand:
                claim = self._store.run(self._store.claim(request))
            else:
                # Shielded: leased jobs must reach the hand, also when we are being stopped.
                claim = await shielded(self._store.run_async(self._store.claim(request)))
        except StoreError as error:
            await self._store.clock.sleep_async(self._patience.failed(error))
            return None
        self._patience.succeeded()
        self._turn += len(claim.jobs)
        heard_at = self._store.clock.monotonic()
        # Whoever was stopped for longer than a lease may be given its own job anew. No heartbeat
        # would tell the old attempt, which is out of hand: it has to stop, so it is told here.
        for held in self._hand.take(claim.jobs, asked_at=asked_at, heard_at=heard_at):
            self._on_lost(held, "lease_lost")
        return claim

    def pause_after(self, claim: Claim) -> float:
        """Return how long to wait for news after a claim that brought too little."""
        poll = self._store.clock.rng.uniform(0.75, 1.0) * POLL_INTERVAL
        return poll if claim.wait is None else min(poll, claim.wait)
