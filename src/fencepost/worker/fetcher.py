"""Asks for jobs: as many as there are free slots, and never one more.

A claim is a start (C41): the store counts it, shows the job as running, and holds it against limits
and rates. So a worker that claimed a job for which it has no slot would make all of that untrue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.limits import (
    CLAIM_MAX,
    POLL_INTERVAL,
    UNSETTLED_MAX,
    WORKER_TIMEOUT_GRACE,
)
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.plan import Operation, Plan
from fencepost.store.protocol import Store
from fencepost.store.replies import Claim
from fencepost.store.requests import ClaimRequest
from fencepost.worker.context import CancelReason
from fencepost.worker.hand import Hand, Held
from fencepost.worker.patience import Patience
from fencepost.worker.shielding import shielded

OnLost = Callable[[Held, CancelReason], None]


class Fetched(NamedTuple):
    """What a claim has brought, and its jobs in hand."""

    claim: Claim
    held: list[Held]


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
        self._may_block = may_block
        self._on_lost = on_lost
        self._turn = 0
        self._answered_at = 0.0
        self.is_held_up = False
        """Whether settlements have to be written before more is claimed."""

    def wanted(self, occupied: int) -> int:
        """Return how many jobs to claim now, while *occupied* slots are taken."""
        # Jobs that have ended but are not recorded would all run again if this process died.
        self.is_held_up = len(self._hand) - occupied > UNSETTLED_MAX
        if self.is_held_up:
            return 0
        return min(max(self._concurrency - occupied, 0), CLAIM_MAX)

    async def claim(self, limit: int) -> Fetched | None:
        """Claim up to *limit* jobs into the hand; None when the store is away (waits a while).

        With every slot free, on a loop of our own, there is no handler that a blocked loop could
        hold up: the claim is made in this thread, which spares two hops between threads. Short jobs
        are drained half as fast again by that.
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
        operation = self._timed(self._store.claim(request))
        try:
            if self._may_block and limit == self._concurrency:
                claim = self._store.run(operation)
            else:
                # Shielded: leased jobs must reach the hand, also when we are being stopped.
                claim = await shielded(self._store.run_async(operation))
        except StoreError as error:
            await self._store.clock.sleep_async(self._patience.failed(error))
            return None
        self._patience.succeeded()
        self._turn += len(claim.jobs)
        taken, lost = self._hand.take(claim.jobs, asked_at=asked_at, answered_at=self._answered_at)
        # A worker that was stopped for longer than a lease may be given its own job anew. No
        # heartbeat tells the old attempt, which is out of hand: it is told to stop here.
        for held in lost:
            self._on_lost(held, "lease_lost")
        return Fetched(claim, taken)

    def _timed(self, operation: Operation[Claim]) -> Operation[Claim]:
        """Note when the store answers: the loop may be blocked for long before it sees that."""

        def start() -> Plan[Claim]:
            claim = yield from operation.start()
            self._answered_at = self._store.clock.monotonic()
            return claim

        return replace(operation, start=start)

    def pause_after(self, claim: Claim) -> float:
        """Return how long to wait for news after a claim that brought too little."""
        poll = self._store.clock.rng.uniform(0.75, 1.0) * POLL_INTERVAL
        return poll if claim.wait is None else min(poll, claim.wait)
