"""Starts attempts and stops them: on the loop, in a thread, or in a child process."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fencepost.core.bounds import INTERRUPT_GRACE, THROW_AGAIN
from fencepost.core.job.failure import classify
from fencepost.core.job.outcome import Outcome, Released, decide, settlement_of
from fencepost.core.job.task import Isolation, Task
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log, logger
from fencepost.store.interface.store import Store
from fencepost.worker.backoff import Backoffs
from fencepost.worker.process.children import Children
from fencepost.worker.run.attempt import AttemptTimers, RunningAttempt
from fencepost.worker.run.conclusion import Concluder
from fencepost.worker.run.context import CancelReason
from fencepost.worker.run.inflight import InFlightJob
from fencepost.worker.run.relay import Relay
from fencepost.worker.run.results import Loader
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.run.threads import Threads

if TYPE_CHECKING:
    from fencepost.observe.tracing import Tracing
    from fencepost.worker.shutdown import Shutdown


class HandlerExecutor:
    """Starts attempts and sees that each delivers exactly one outcome.

    What it holds is what every attempt of a run needs; attempts read it.
    """

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        *,
        counters: Counters,
        slots: WorkerSlots,
        settler: Settler,
        shutdown: Shutdown,
        tracing: Tracing | None = None,
        owns_loop: bool = False,
    ) -> None:
        self.store = store
        self.clock = store.clock
        self.rng = store.clock.rng
        self.tasks = tasks
        self.counters = counters
        self.tracing = tracing
        self.slots = slots
        self.settler = settler
        self.shutdown = shutdown
        self.backoffs = Backoffs(tasks)
        self.concluder = Concluder(store, settler, counters, self.backoffs)
        self.threads = Threads()
        self.timers = AttemptTimers(store.clock)
        self.leaked: set[RunningAttempt] = set()
        """Attempts that were given up although their handlers go on."""
        self.is_verbose = False
        self._owns_loop = owns_loop
        self._loop = asyncio.get_running_loop()
        self._children = Children(store.url, counters, store.keys)
        self._loader = Loader(store, tasks, counters, self)
        self._relay = Relay(store.clock, slots.reach)

    # Starting.

    def take(self, jobs: Sequence[InFlightJob]) -> None:
        """Start what a claim has brought; there is a free slot for each."""
        self.slots.taken += len(jobs)
        if self.shutdown.is_stopping:
            self.give_back(jobs)
            return
        self.is_verbose = logger.isEnabledFor(logging.DEBUG)
        reach = self.slots.reach
        reach.claimed()
        if reach.must_begin:
            jobs[0].start_by = math.inf
        # Most jobs have waited for nothing, and need not be looked at any closer.
        if owed := [h for h in jobs if h.job.has_dependencies and self._loader.owes(h)]:
            self._load(owed)
            jobs = [held for held in jobs if not self._loader.owes(held)]
        self.start(jobs)

    def _load(self, owed: Sequence[InFlightJob]) -> None:
        """Load what jobs have waited for; in this thread if that holds up nobody, as a claim is."""
        for held in owed:
            held.start_by = math.inf  # its attempt begins with this
        if self._owns_loop and not self.slots.running:
            self._loader.load_here(owed)
        late = [held for held in owed if self._loader.owes(held)]
        if late:
            self._loader.add(late)

    def start(self, jobs: Iterable[InFlightJob]) -> None:
        """Start the attempts of *jobs*, each where its task is isolated."""
        coroutines: list[RunningAttempt] = []
        for held in jobs:
            attempt = RunningAttempt(held, self)
            isolation = self.tasks[held.job.type].isolation
            if isolation is Isolation.LOOP:
                coroutines.append(attempt)
            elif isolation is Isolation.THREAD:
                attempt.start_in_thread()
            else:
                attempt.start_in_child()
        self._relay.run(coroutines)

    async def call_in_child(self, attempt: RunningAttempt) -> Outcome:
        """Run a handler in a child process."""
        if self.tracing is None:
            return await self._children.run(attempt)
        return await self.tracing.watch(attempt.job, partial(self._children.run, attempt))

    # Not starting.

    def stop_starting(self) -> None:
        """Begin no more: what has not begun is given back, and what waits looks again."""
        self.shutdown.is_stopping = self.counters.pulse.is_stopping = True
        # At once: others can run them while this worker still finishes what it has begun.
        self.give_back([*self._loader.take_back(), *self._relay.take_back()])
        self.slots.news.set()
        self.slots.quiet.set()

    def give_back(self, jobs: Iterable[InFlightJob]) -> None:
        """Have jobs released that have not begun: uncounted, in their old place in line."""
        for held in jobs:
            if not held.is_dropped:
                decision = decide(held.job, Released(), self.rng)
                self.settler.add(settlement_of(held.job, decision))
            self.slots.free()

    def came_late(self, held: InFlightJob) -> None:
        """Give a job back whose handler could not begin in time: others kept the loop busy."""
        self.counters.add(names.ATTEMPT_LATE)
        self.slots.reach.came_late()
        self.slots.turn -= 1  # of the queue whose job could not begin
        self.slots.late.append(held)
        self.give_back([held])

    def refuse(self, held: InFlightJob, error: Exception) -> None:
        """Fail an attempt before its start: what its job waited for cannot be loaded."""
        decision = decide(held.job, classify(error), self.rng, self.backoffs)
        self.settler.add(settlement_of(held.job, decision))
        self.slots.free()

    def close(self) -> None:
        self.threads.close()
        self._children.close()

    # Stopping.

    def stop(self, attempt: RunningAttempt, reason: CancelReason) -> bool:
        """Stop the handler of an attempt; return True if it has surely ended."""
        match attempt.task.isolation:
            case Isolation.LOOP:
                # It may tidy up for a while; then it is given up.
                if attempt.future is not None:
                    attempt.future.cancel(f"fencepost: {reason}")
                self._loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
                return False
            case Isolation.THREAD:
                # A shutdown only asks at first: the thread may look at ``ctx.cancelled`` in time.
                if reason != "shutdown":
                    self.stop_thread(attempt)
                    self._loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
                return False
            case Isolation.PROCESS:
                self._children.kill(attempt)
                return True

    def stop_thread(self, attempt: RunningAttempt) -> None:
        """Throw ``HandlerStopped`` into the thread of an attempt, as soon as it can take it."""
        if attempt.thread is None or attempt.has_returned:
            return
        if not attempt.thread.stop():
            self._loop.call_later(THROW_AGAIN, self.stop_thread, attempt)

    def give_up(self, attempt: RunningAttempt, reason: CancelReason) -> None:
        """End an attempt although its handler goes on, if it still does, and log that."""
        if attempt.has_returned or attempt.has_ended:
            return
        self.leaked.add(attempt)
        self.counters.add(names.SLOT_LEAKED)
        log(
            names.SLOT_LEAKED,
            level=logging.WARNING,
            id=attempt.job.id,
            type=attempt.job.type,
            reason=reason,
            hint='the handler did not stop; isolation="process" can be killed',
            leaked=len(self.leaked),
        )
        attempt.give_up()
        if attempt.thread is not None and self.shutdown.retire(attempt, len(self.slots.running)):
            self.stop_starting()

    def regain(self, attempt: RunningAttempt) -> None:
        """Note that a handler has come back whose attempt had been given up."""
        self.leaked.discard(attempt)
        self.counters.add(names.SLOT_REGAINED)
        log(names.SLOT_REGAINED, id=attempt.job.id, type=attempt.job.type)
