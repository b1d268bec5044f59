"""Starts attempts and stops them: on the loop, in a thread, or in a child process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.core.bounds import INTERRUPT_GRACE, LOAD_MAX, THROW_AGAIN
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Dependency
from fencepost.core.job.outcome import Outcome, Released, decide, settlement_of
from fencepost.core.job.task import Isolation
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.log import jobs_logger, log_job, logger
from fencepost.store.plan import Operation
from fencepost.worker.backoff import Backoffs, StoreBackoff
from fencepost.worker.children import Children
from fencepost.worker.run.attempt import AttemptTimers, RunningAttempt
from fencepost.worker.run.batch import Batches
from fencepost.worker.run.conclusion import Concluder
from fencepost.worker.run.context import AttemptState, CancelReason, Context, ContextActions
from fencepost.worker.run.hooks import FailureHooks
from fencepost.worker.run.inflight import InFlightJob
from fencepost.worker.run.relay import Relay
from fencepost.worker.run.report import report
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.run.threads import Threads

if TYPE_CHECKING:
    from fencepost.worker.settings import WorkerSettings
    from fencepost.worker.shutdown import Shutdown
    from fencepost.worker.starts import NoRecord, StartRecord


class HandlerExecutor:
    """Starts attempts and stops them, so that each has exactly one outcome.

    It holds what every attempt of a run needs; attempts read it.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        slots: WorkerSlots,
        settler: Settler,
        starts: StartRecord | NoRecord,
        shutdown: Shutdown,
        shared: Any,
        owns_loop: bool,
    ) -> None:
        store, tasks, counters = settings.store, settings.tasks, settings.counters
        self.store = store
        self.clock = store.clock
        self.rng = store.clock.rng
        self.tasks = tasks
        self.counters = counters
        self.tracing = settings.tracing
        self.slots = slots
        self.settler = settler
        self.starts = starts
        self.shutdown = shutdown
        self.worker = settings.worker
        self.hooks = settings.hooks
        self.shared = shared
        """What the app's lifespan has yielded."""
        self.backoffs = Backoffs(tasks)
        self.concluder = Concluder(store, settler, counters, self.backoffs)
        self.threads = Threads()
        self.failure_hooks = FailureHooks(self.hooks, self.threads)
        self.timers = AttemptTimers(store.clock)
        self.leaked: set[RunningAttempt] = set()
        """Attempts that were given up although their handlers still run."""
        self.is_verbose = self.is_telling = False
        """Whether the log shows each start, and each attempt that succeeded."""
        self._owns_loop = owns_loop
        self._loop = asyncio.get_running_loop()
        self.is_warm = asyncio.Event()
        self._children = Children(
            store.url, counters, store.keys, max_rss=settings.max_rss, preload=settings.preload
        )
        self._loader = Loader(self)
        self._batches = Batches(self)
        self._relay = Relay(store.clock, slots.reach)

    def take(self, jobs: Sequence[InFlightJob]) -> None:
        """Start the jobs of a claim; there is a free slot for each."""
        self.slots.taken += len(jobs)
        if self.shutdown.is_stopping:
            self.give_back(jobs)
            return
        self.is_verbose = logger.isEnabledFor(logging.DEBUG)
        self.is_telling = jobs_logger.isEnabledFor(logging.INFO)
        if self.slots.reach.claimed():
            jobs[0].start_by = math.inf
        # Most jobs have waited for nothing.
        if lacking := [h for h in jobs if h.job.has_dependencies and self._loader.lacks(h)]:
            self._load(lacking)
            jobs = [held for held in jobs if not self._loader.lacks(held)]
        self.start(jobs)

    def _load(self, lacking: Sequence[InFlightJob]) -> None:
        """Load what jobs have waited for; like a claim, in this thread if no handler runs."""
        for held in lacking:
            held.start_by = math.inf  # loading is the beginning of its attempt
        if self._owns_loop and not self.slots.running:
            self._loader.load_here(lacking)
        late = [held for held in lacking if self._loader.lacks(held)]
        if late:
            self._loader.add(late)

    def start(self, jobs: Iterable[InFlightJob]) -> None:
        """Start the attempts of *jobs*, each where its task is isolated."""
        coroutines: list[RunningAttempt] = []
        others: list[RunningAttempt] = []
        for held in jobs:
            attempt = RunningAttempt(held, self)
            task = self.tasks[held.job.type]
            if task.batch is not None:
                self._batches.add(attempt, task)
            elif task.isolation is Isolation.LOOP:
                coroutines.append(attempt)
            else:
                others.append(attempt)
        behind = self._start_others(others, coroutines) if others else []
        self._relay.run(coroutines)
        if behind:
            self._loop.call_soon(self._start_behind, behind)

    def _start_others(
        self, attempts: Sequence[RunningAttempt], coroutines: Sequence[RunningAttempt] = ()
    ) -> list[RunningAttempt]:
        """Start attempts in threads and children; return those that have to wait.

        These begin at once, coroutines one after the other. So what is less urgent than a coroutine
        that has not begun waits for it (C42).
        """
        urgency = self._relay.urgency(coroutines)
        behind: list[RunningAttempt] = []
        for attempt in attempts:
            if urgency is not None and attempt.job.priority > urgency:
                behind.append(attempt)
            elif self.tasks[attempt.job.type].isolation is Isolation.THREAD:
                attempt.start_in_thread()
            else:
                attempt.start_in_child()
        return behind

    def _start_behind(self, waiting: Sequence[RunningAttempt]) -> None:
        """Start what has waited for more urgent coroutines, a turn of the loop later."""
        if self.shutdown.is_stopping:
            self.give_back([attempt.held for attempt in waiting])
        elif behind := self._start_others(waiting):
            self._loop.call_soon(self._start_behind, behind)

    def context_of(self, state: AttemptState) -> Context:
        """Return the context of an attempt that has begun."""
        actions = ContextActions(
            state,
            self.store,
            self.tasks,
            hooks=self.hooks,
            shared=self.shared,
            tracing=self.tracing,
        )
        return Context(actions)

    def in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run *function* in a thread, with the context variables of the caller."""
        return self.threads.call(partial(contextvars.copy_context().run, function))

    async def warm_up(self) -> None:
        """Do what the first job would have to wait for."""
        await self._children.warm_up(self.tasks.values())
        self.is_warm.set()

    async def call_in_child(self, attempt: RunningAttempt) -> Outcome:
        """Run a handler in a child process."""
        if self.tracing is None:
            return await self._children.run(attempt)
        run = partial(self._children.run, attempt)
        return await self.tracing.watch(attempt.job, lambda tags: run(trace_tags=tags))

    def stop_starting(self) -> None:
        """Begin no more: give back what has not begun, and wake what waits."""
        self.shutdown.is_stopping = self.counters.pulse.is_stopping = True
        # At once: other workers can run them while this one finishes its running jobs.
        waiting = (self._loader, self._relay, self._batches)
        self.give_back([held for line in waiting for held in line.take_back()])
        self.slots.news.set()
        self.slots.quiet.set()

    def give_back(self, jobs: Iterable[InFlightJob]) -> None:
        """Release jobs that have not begun: uncounted, in their old place in line."""
        for held in jobs:
            if not held.is_dropped:
                decision = decide(held.job, Released(), self.rng)
                self.settler.add(settlement_of(held.job, decision))
            self.slots.free()

    def came_late(self, held: InFlightJob) -> None:
        """Release a job whose handler could not begin in time: others kept the loop busy."""
        self.note_late(held)
        self.give_back([held])

    def note_late(self, held: InFlightJob) -> None:
        """Note that a job goes back because its handler could not begin in time."""
        self.counters.add(names.ATTEMPT_LATE)
        self.slots.reach.came_late()
        self.slots.turn -= 1  # the queue whose job could not begin gets its turn again
        self.slots.late.append(held)

    def refuse(self, held: InFlightJob, error: Exception) -> None:
        """Fail an attempt before its start: the results that its job needs cannot be loaded."""
        decision = decide(held.job, classify(error), self.rng, self.backoffs)
        self.settler.add(settlement_of(held.job, decision))
        report(held.job, decision, seconds=0.0, worker=self.worker, error=error)
        if self.failure_hooks.is_needed:
            state = AttemptState(held.job, held.job.lease, self.clock.monotonic())
            self.failure_hooks.add(self.context_of(state), decision, error)
        self.slots.free()

    async def close(self) -> None:
        self.threads.close()
        if self._children:
            await asyncio.to_thread(self._children.close)  # it waits for them

    def stop(self, attempt: RunningAttempt, reason: CancelReason) -> bool:
        """Stop the handler of an attempt; return True if it has surely ended."""
        match attempt.task.isolation:
            case Isolation.LOOP:
                # It may clean up for a while; then it is given up.
                if attempt.future is not None:
                    attempt.future.cancel(f"fencepost: {reason}")
                self._loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
                return False
            case Isolation.THREAD:
                # At a shutdown it may look at ``ctx.cancelled`` first, and end by itself.
                if reason != "shutdown":
                    self.stop_thread(attempt)
                    self._loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
                return False
            case Isolation.PROCESS:
                self._children.kill(attempt)
                return True

    def stop_thread(self, attempt: RunningAttempt) -> None:
        """Throw ``HandlerStopped`` into the thread of an attempt, as soon as that is possible."""
        if attempt.thread is None or attempt.has_returned:
            return
        if isinstance(attempt.future, asyncio.Task) and not attempt.thread.is_running:
            attempt.future.cancel()  # a hook on the loop, before its handler or after it
        if not attempt.thread.stop():
            self._loop.call_later(THROW_AGAIN, self.stop_thread, attempt)

    def give_up(self, attempt: RunningAttempt, reason: CancelReason) -> None:
        """End an attempt although its handler still runs, and log that."""
        if attempt.has_returned or attempt.has_ended:
            return
        self.leaked.add(attempt)
        self.counters.add(names.SLOT_LEAKED)
        log_job(
            names.SLOT_LEAKED,
            attempt.job,
            level=logging.WARNING,
            reason=reason,
            hint='the handler did not stop; isolation="process" can be killed',
            leaked=len(self.leaked),
        )
        attempt.end(attempt.outcome_of_interruption())
        if attempt.thread is not None and self.shutdown.retire(attempt, len(self.slots.running)):
            self.stop_starting()

    def regain(self, attempt: RunningAttempt) -> None:
        """Note that a handler has returned whose attempt had been given up."""
        self.leaked.discard(attempt)
        self.counters.add(names.SLOT_REGAINED)
        log_job(names.SLOT_REGAINED, attempt.job)


class Loader:
    """Loads the results that held jobs have waited for, then has the executor start them.

    One operation for all jobs of a claim, and none for jobs that waited for nothing or whose
    handler takes no context. Results do not change once they have released a job, so they can be
    loaded ahead. While the store is away the jobs stay in flight, heartbeated, and it tries again.
    """

    def __init__(self, executor: HandlerExecutor) -> None:
        self._store = executor.store
        self._tasks = executor.tasks
        self._backoff = StoreBackoff("load", executor.counters, executor.rng)
        self._executor = executor
        self._waiting: list[InFlightJob] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, lacking: Sequence[InFlightJob]) -> None:
        """Start jobs once the results that they need are loaded."""
        self._waiting.extend(lacking)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._load_all())
            self._task.add_done_callback(self._done)

    def take_back(self) -> list[InFlightJob]:
        """Load no more; return the jobs that still wait."""
        left, self._waiting = self._waiting, []
        if self._task is not None:
            self._task.cancel()
        return left

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()  # raises a bug of ours

    async def _load_all(self) -> None:
        while self._waiting:
            await self._load_some(self._waiting)
            ready = [held for held in self._waiting if held.is_dropped or not self.lacks(held)]
            self._waiting = [held for held in self._waiting if held not in ready]
            self._executor.start(ready)

    def lacks(self, held: InFlightJob) -> bool:
        """Return whether a job must not start before its dependencies are loaded."""
        return (
            held.job.has_dependencies
            and held.dependencies is None
            and self._tasks[held.job.type].signature.context_name is not None
        )

    async def _load_some(self, waiting: Iterable[InFlightJob]) -> bool:
        """Load what *waiting* jobs lack; False, after a while, if the store was away."""
        lacking = self._lacking(waiting)
        try:
            _fill(lacking, await self._store.run_async(self._reading(lacking)))
        except StoreError as error:
            await self._store.clock.sleep_async(self._backoff.failed(error))
            return False
        except Exception as error:  # noqa: BLE001 - one that cannot be read must not hold up all
            if len(lacking) > 1:
                for held in lacking:
                    if not await self._load_some([held]):
                        return False
            elif lacking[0] in self._waiting:  # else it was given back meanwhile
                self._waiting.remove(lacking[0])
                self._executor.refuse(lacking[0], error)
        else:
            self._backoff.succeeded()
        return True

    def load_here(self, waiting: Iterable[InFlightJob]) -> None:
        """Do so in this thread, if the store answers at once; on any error, do nothing."""
        lacking = self._lacking(waiting)
        with suppress(Exception):  # the awaited way handles every error
            _fill(lacking, self._store.run(self._reading(lacking)))

    def _lacking(self, waiting: Iterable[InFlightJob]) -> list[InFlightJob]:
        return [held for held in waiting if not held.is_dropped and self.lacks(held)][:LOAD_MAX]

    def _reading(self, lacking: Sequence[InFlightJob]) -> Operation[list[list[Dependency]]]:
        return self._store.reader.dependencies([held.job.id for held in lacking], with_results=True)


def _fill(lacking: Sequence[InFlightJob], found: list[list[Dependency]]) -> None:
    for held, dependencies in zip(lacking, found, strict=True):
        held.dependencies = dependencies
