"""Ends attempts for which the worker has to query the store first.

Of a job that this version of the code cannot read, the store knows for how long that has gone on:
this decides whether it is released for other workers once more. It stays in flight until then.

A handler may have settled its job itself, in its own transaction. Only the store knows whether
that was committed. If it was, there is nothing left to do; if it was rolled back, the attempt ends
as its handler did, and returning counts as a failure. Every crash point is safe:

- The worker or its connection dies before the commit: the server rolls back, the lease runs out,
  and the job is recovered.
- It dies after the commit: the job is completed, and there is nothing to recover.
- The lease runs out before ``complete_in``: it raises, and the handler's writes are rolled back.
- The lease runs out between ``complete_in`` and the commit: the lease's row is locked, and
  recovery passes over it; the commit counts.
- The reply to the commit is lost: the handler fails, and the store says here what happened.
- The job is cancelled or recovered by hand meanwhile: that waits for the row, and finds the job
  completed, or running if it was rolled back.
- The transaction stays open though its handler has ended: a settlement would wait for the row and
  block the others, so none is sent; after the TTL of a lease the job is dropped. It is completed
  if the transaction is committed later, and recovered once it is rolled back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from fencepost.core.job.failure import not_committed
from fencepost.core.job.job import AttemptOutcome, Body, ClaimedJob
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import (
    Decision,
    Outcome,
    Succeeded,
    Unreadable,
    decide,
    settlement_of,
)
from fencepost.core.values.signature import with_past
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log_job
from fencepost.store.interface.joins import Fate
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.store.wrappers.transitions import EVENT_NAMES, count
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.run.settler import Settler

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt

T = TypeVar("T")

PAUSE_MIN = 0.005
PAUSE_MAX = 0.5
"""Seconds between two queries about a transaction that is still open."""


class Concluder:
    """Queries how transactions ended, and settles the attempts that need it."""

    def __init__(
        self,
        store: Store,
        settler: Settler,
        counters: Counters,
        ask: Callable[[ClaimedJob], float | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._settler = settler
        self._counters = counters
        self._ask = ask
        self._backoff = StoreBackoff("conclude", counters, store.clock.rng)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    def add(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Conclude an attempt whose handler has ended with *outcome*, in a task."""
        task = asyncio.get_running_loop().create_task(self.conclude(attempt, outcome))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def conclude(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Query the store, then settle the attempt or drop its job."""
        job = attempt.job
        if isinstance(outcome, Unreadable):
            decision = await self._give_back(job, outcome)
            if decision.state.is_terminal:
                attempt.call_failure_hooks(decision)
            return
        match await self._fate(attempt):
            case Fate.UNDONE:
                ended = not_committed() if isinstance(outcome, Succeeded) else outcome
                decision = decide(job, ended, self._store.clock.rng, self._ask)
                self._settler.add(settlement_of(job, decision))
                attempt.report(decision, self._age(attempt))
                return
            case Fate.SETTLED:
                self._counters.add(names.ATTEMPT_ENDED, outcome=AttemptOutcome.SUCCEEDED)
                happened = (EVENT_NAMES[Event.SUCCEED], State.COMPLETED, job.type)
                count(self._counters, names.JOB_SETTLED, [happened])
                about = {"state": State.COMPLETED, "correlation_id": job.correlation_id}
                log_job(names.JOB_SETTLED, job, level=logging.DEBUG, **about)
                completed = decide(job, Succeeded(Body(b"null")), self._store.clock.rng)
                attempt.report(completed, self._age(attempt))
            case Fate.OPEN:
                self._counters.add(names.ATTEMPT_LEFT_OPEN)
                log_job(names.ATTEMPT_LEFT_OPEN, job, level=logging.WARNING)
        self._settler.drop(job)

    def _age(self, attempt: RunningAttempt) -> float:
        return self._store.clock.monotonic() - attempt.state.started_at

    async def _give_back(self, job: ClaimedJob, outcome: Unreadable) -> Decision:
        """Release a job that this version of the code cannot read; after too long, fail it."""
        attempts = await self._reply(self._store.reader.attempts(job.id))
        decision = decide(job, with_past(outcome, attempts), self._store.clock.rng)
        self._counters.add(names.PAYLOAD_UNREADABLE, type=job.type)
        log_job(
            names.PAYLOAD_UNREADABLE,
            job,
            level=logging.ERROR if decision.state.is_terminal else logging.WARNING,
            attempt=job.attempt,
            queue=job.queue,
            state=decision.state,
            delay=decision.delay,
            error=outcome.failure.message,
            hint="is this worker of an older version than what submits, or of a newer one?",
        )
        self._settler.add(settlement_of(job, decision))
        return decision

    async def _fate(self, attempt: RunningAttempt) -> Fate:
        """Return how the transaction ended; OPEN if it did not within the TTL of the lease."""
        store = self._store
        deadline = store.clock.monotonic() + attempt.job.lease_ttl
        pause = PAUSE_MIN
        while True:
            (fate,) = await self._reply(store.joins.fates([attempt.state.joined]))
            if fate is not Fate.OPEN or store.clock.monotonic() >= deadline:
                return fate
            await store.clock.sleep_async(pause)
            pause = min(pause * 2, PAUSE_MAX)

    async def _reply(self, operation: Operation[T]) -> T:
        """Return the store's reply, however long the store is away."""
        while True:
            try:
                reply = await self._store.run_async(operation)
            except StoreError as error:
                await self._store.clock.sleep_async(self._backoff.failed(error))
            else:
                self._backoff.succeeded()
                return reply
