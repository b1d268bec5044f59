"""Asks the store for jobs, and sees that none that it leases is lost on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.bounds import FAREWELL, POLL_INTERVAL, WORKER_TIMEOUT_GRACE
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation, Plan
from fencepost.worker.run.inflight import InFlight, InFlightJob, interrupt_lost
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.run.store_calls import StoreBackoff, shielded

UNBEGUN = 0.1
"""How long a claim is waited for that no thread of the store has taken up."""


class Fetched(NamedTuple):
    """What a claim has brought, and its jobs as they are held."""

    claim: Claim
    held: list[InFlightJob]


class Claimer:
    """Claims jobs and holds them."""

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
        self._is_asking = False
        self._has_begun = False
        self._answer: Claim | None = None
        """Of the claim that is under way, noted where the store works."""

    async def claim(self, limit: int, *, blocks: bool = False) -> Fetched | None:
        """Claim up to *limit* jobs and hold them; None when the store is away (waits a while)."""
        request = ClaimRequest(
            worker=self._worker,
            limit=limit,
            queues=self._queues,
            types=self._types,
            turn=self._slots.turn,
            lease_ttl=self._lease_ttl,
            timeout_grace=WORKER_TIMEOUT_GRACE,
        )
        self._asked_at = self._clock.monotonic()
        self._is_asking, self._has_begun, self._answer = True, False, None
        operation = self._timed(self._store.queue.claim(request))
        try:
            if blocks:
                claim = self._store.run(operation)
            else:
                # Shielded: leased jobs must be held, also when we are being stopped.
                claim = await shielded(self._store.run_async(operation))
        except StoreError as error:
            self._is_asking = False
            await self._clock.sleep_async(self._backoff.failed(error))
            return None
        self._backoff.failures = 0
        return self._take(claim)

    async def unseen(self) -> Fetched | None:
        """Return what a claim has brought that a closing loop has torn from us, if one was.

        The store goes on with it in a thread; what has begun there is waited for.
        """
        clock = self._clock
        since = clock.monotonic()
        while self._is_asking and self._answer is None:
            if clock.monotonic() - since > (FAREWELL if self._has_begun else UNBEGUN):
                return None
            await clock.sleep_async(0.005)
        return None if self._answer is None else self._take(self._answer)

    def _take(self, claim: Claim) -> Fetched:
        self._is_asking = False
        self._answer = None
        self._slots.turn += len(claim.jobs)
        taken, lost = self._inflight.take(
            claim.jobs, asked_at=self._asked_at, answered_at=self._answered_at
        )
        # A worker that was stopped for longer than a lease may be given its own job anew. No
        # heartbeat reaches the old attempt, which is no longer held: it is interrupted here.
        for held in lost:
            interrupt_lost(held, "lease_lost", self._counters)
        return Fetched(claim, taken)

    def _timed(self, operation: Operation[Claim]) -> Operation[Claim]:
        """Note when the store answers: the loop may be blocked for long before it sees that."""

        def start() -> Plan[Claim]:
            self._has_begun = True
            claim = yield from operation.start()
            self._answered_at = self._clock.monotonic()
            self._answer = claim
            return claim

        return replace(operation, start=start)

    def pause_after(self, claim: Claim) -> float:
        """Return how long to wait for news after a claim that brought too little."""
        poll = self._clock.rng.uniform(0.75, 1.0) * POLL_INTERVAL
        return poll if claim.wait is None else min(poll, claim.wait)
