"""Asks for jobs: as many as there are free slots, and never one more.

A claim is a start (C41): the store counts it, shows the job as running, and holds it against limits
and rates. So a worker that claimed a job for which it has no slot would make all of that untrue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.bounds import (
    CLAIM_MAX,
    FAREWELL,
    POLL_INTERVAL,
    UNSETTLED_MAX,
    WORKER_TIMEOUT_GRACE,
)
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation, Plan
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.inflight import Hand, Held
from fencepost.worker.run.shield import shielded
from fencepost.worker.run.store_backoff import Patience

UNBEGUN = 0.1
"""How long a claim is waited for that no thread of the store has taken up."""

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
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._is_asking = False
        self._has_begun = False
        self._answer: Claim | None = None
        """Of the claim that is under way, noted where the store works."""
        self.is_held_up = False
        """Whether settlements have to be written before more is claimed."""

    def wanted(self, occupied: int) -> int:
        """Return how many jobs to claim now, while *occupied* slots are taken."""
        # Jobs that have ended but are not recorded would all run again if this process died.
        self.is_held_up = len(self._hand) - occupied > UNSETTLED_MAX
        if self.is_held_up:
            return 0
        return min(max(self._concurrency - occupied, 0), CLAIM_MAX)

    def may_block(self, occupied: int) -> bool:
        """Tell whether a claim may be made in the loop's own thread.

        With every slot free, on a loop of our own, there is no handler that a blocked loop could
        hold up. It spares two hops between threads: short jobs are drained half as fast again.
        """
        return self._may_block and not occupied

    async def claim(self, limit: int, *, blocks: bool = False) -> Fetched | None:
        """Claim up to *limit* jobs into the hand; None when the store is away (waits a while)."""
        request = ClaimRequest(
            worker=self._worker,
            limit=limit,
            queues=self._queues,
            types=self._types,
            turn=self._turn,
            lease_ttl=self._lease_ttl,
            timeout_grace=WORKER_TIMEOUT_GRACE,
        )
        self._asked_at = self._store.clock.monotonic()
        self._is_asking, self._has_begun, self._answer = True, False, None
        operation = self._timed(self._store.queue.claim(request))
        try:
            if blocks:
                claim = self._store.run(operation)
            else:
                # Shielded: leased jobs must reach the hand, also when we are being stopped.
                claim = await shielded(self._store.run_async(operation))
        except StoreError as error:
            self._is_asking = False
            await self._store.clock.sleep_async(self._patience.failed(error))
            return None
        self._patience.succeeded()
        return self._take(claim)

    async def unseen(self) -> Fetched | None:
        """Return what a claim has brought that a closing loop has torn from us, if one was.

        The store goes on with it in a thread; what has begun there is waited for.
        """
        clock = self._store.clock
        since = clock.monotonic()
        while self._is_asking and self._answer is None:
            if clock.monotonic() - since > (FAREWELL if self._has_begun else UNBEGUN):
                return None
            await clock.sleep_async(0.005)
        return None if self._answer is None else self._take(self._answer)

    def unturn(self) -> None:
        """Give a turn back to the queue whose job could not begin."""
        self._turn -= 1

    def _take(self, claim: Claim) -> Fetched:
        self._is_asking = False
        self._answer = None
        self._turn += len(claim.jobs)
        taken, lost = self._hand.take(
            claim.jobs, asked_at=self._asked_at, answered_at=self._answered_at
        )
        # A worker that was stopped for longer than a lease may be given its own job anew. No
        # heartbeat tells the old attempt, which is out of hand: it is told to stop here.
        for held in lost:
            self._on_lost(held, "lease_lost")
        return Fetched(claim, taken)

    def _timed(self, operation: Operation[Claim]) -> Operation[Claim]:
        """Note when the store answers: the loop may be blocked for long before it sees that."""

        def start() -> Plan[Claim]:
            self._has_begun = True
            claim = yield from operation.start()
            self._answered_at = self._store.clock.monotonic()
            self._answer = claim
            return claim

        return replace(operation, start=start)

    def pause_after(self, claim: Claim) -> float:
        """Return how long to wait for news after a claim that brought too little."""
        poll = self._store.clock.rng.uniform(0.75, 1.0) * POLL_INTERVAL
        return poll if claim.wait is None else min(poll, claim.wait)
