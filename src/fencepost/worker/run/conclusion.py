"""Ends attempts of which the store has to be asked something first.

Of jobs that this version of the code cannot read: for how long that has gone on, which decides
whether they are given back for others once more. The job stays in flight until it is settled.

And those whose handler settled its job itself, in a transaction of its own. Only the store knows
what became of that transaction, so it is asked: once committed there is nothing left to do; if it
was rolled back, the attempt ends as its handler did, and returning counts as a failure. Whatever
happens in between is safe at each point:

- The worker or its connection dies before the commit: the server rolls back, the lease runs out,
  and the job is recovered.
- It dies after the commit: the job is completed, and there is nothing to recover.
- The lease runs out before ``complete_in``: it raises, and the handler's writes are rolled back.
- The lease runs out between ``complete_in`` and the commit: the lease's row is locked, and
  recovery passes over it; the commit counts.
- The commit's answer is lost: the handler fails, and the store says here which of both it was.
- The job is cancelled, or recovered by hand, meanwhile: that waits for the row, and finds the job
  completed, or running if it was rolled back.
- The transaction stays open though its handler has ended: a settlement would wait for the row and
  hold up those of others, so none is sent; after a lease's time the job is dropped. It is
  completed if the transaction is ever committed, and recovered once it is rolled back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.core.job.failure import not_committed
from fencepost.core.job.job import AttemptOutcome, ClaimedJob
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Outcome, Succeeded, Unreadable, decide, settlement_of
from fencepost.core.values.skew import with_past
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.joins import Fate
from fencepost.store.interface.store import Store
from fencepost.store.wrappers.transitions import EVENT_NAMES, count
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.store_calls import StoreBackoff

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt

PAUSE_MIN = 0.005
PAUSE_MAX = 0.5
"""Seconds between two looks at a transaction that is still open."""


class Concluder:
    """Asks what became of transactions, and has the attempts settled that need it."""

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
        """Have an attempt concluded whose handler has ended with *outcome*."""
        task = asyncio.get_running_loop().create_task(self.conclude(attempt, outcome))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def conclude(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Ask the store what has to be known, and see to the rest."""
        job = attempt.job
        if isinstance(outcome, Unreadable):
            await self._give_back(job, outcome)
            return
        match await self._fate(attempt):
            case Fate.UNDONE:
                ended = not_committed() if isinstance(outcome, Succeeded) else outcome
                decision = decide(job, ended, self._store.clock.rng, self._ask)
                self._settler.add(settlement_of(job, decision))
                return
            case Fate.SETTLED:
                self._counters.add(names.ATTEMPT_ENDED, outcome=AttemptOutcome.SUCCEEDED)
                happened = (EVENT_NAMES[Event.SUCCEED], State.COMPLETED, job.type)
                count(self._counters, names.JOB_SETTLED, [happened])
                log(
                    names.JOB_SETTLED,
                    level=logging.DEBUG,
                    id=job.id,
                    type=job.type,
                    state=State.COMPLETED,
                    correlation_id=job.correlation_id,
                )
            case Fate.OPEN:
                self._counters.add(names.ATTEMPT_LEFT_OPEN)
                log(names.ATTEMPT_LEFT_OPEN, level=logging.WARNING, id=job.id, type=job.type)
        self._settler.drop(job)

    async def _give_back(self, job: ClaimedJob, outcome: Unreadable) -> None:
        """Give a job back that this version of the code cannot read, or have it fail in the end."""
        while True:
            try:
                attempts = await self._store.run_async(self._store.reader.attempts(job.id))
            except StoreError as error:
                await self._store.clock.sleep_async(self._backoff.failed(error))
            else:
                break
        self._backoff.failures = 0
        decision = decide(job, with_past(outcome, attempts), self._store.clock.rng)
        self._counters.add(names.PAYLOAD_UNREADABLE, type=job.type)
        log(
            names.PAYLOAD_UNREADABLE,
            level=logging.WARNING,
            id=job.id,
            type=job.type,
            state=decision.state,
            delay=decision.delay,
            error=outcome.failure.message,
            hint="is this worker of an older version than what submits, or of a newer one?",
        )
        self._settler.add(settlement_of(job, decision))

    async def _fate(self, attempt: RunningAttempt) -> Fate:
        """Return how it ended; OPEN if it did not in the time that a lease lasts."""
        store = self._store
        deadline = store.clock.monotonic() + attempt.job.lease_ttl
        pause = PAUSE_MIN
        while True:
            try:
                (fate,) = await store.run_async(store.joins.fates([attempt.context.joined]))
            except StoreError as error:
                await store.clock.sleep_async(self._backoff.failed(error))
                continue
            self._backoff.failures = 0
            if fate is not Fate.OPEN or store.clock.monotonic() >= deadline:
                return fate
            await store.clock.sleep_async(pause)
            pause = min(pause * 2, PAUSE_MAX)
