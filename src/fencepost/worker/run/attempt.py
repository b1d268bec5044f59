"""One attempt: a handler called under a lease, until it ends, in whatever way it ends first.

``RunningAttempt.run`` is the whole path of a job in a worker, from top to bottom. A handler that is
no coroutine takes the same path in a thread (``start_in_thread``), whose outcome ends it as well.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fencepost.clock import Clock
from fencepost.core.job.failure import classify, timed_out
from fencepost.core.job.outcome import (
    Outcome,
    Released,
    Succeeded,
    Unreadable,
    decide,
    settlement_of,
)
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.skew import read_arguments
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interruption import Interruptible
from fencepost.worker.run.context import CancelReason, Context
from fencepost.worker.run.inflight import InFlightJob

if TYPE_CHECKING:
    from fencepost.worker.run.executor import HandlerExecutor


ARM_AFTER = 0.05
"""Attempts shorter than this get no timer of their own."""
ARMED_AT_ONCE = 2 * ARM_AFTER
"""Attempts that may not even take so long get one at their start."""


class RunningAttempt:
    """An attempt ends once: by its handler, or by an interruption that outruns it."""

    __slots__ = (
        "_executor",
        "context",
        "future",
        "has_begun",
        "has_ended",
        "has_returned",
        "held",
        "is_interrupted",
        "job",
        "started_at",
        "task",
        "thread",
        "timer",
    )

    context: Context
    held: InFlightJob
    """Until it begins."""
    started_at: float
    task: Task

    def __init__(self, held: InFlightJob, executor: HandlerExecutor) -> None:
        self.held = held
        self.job = held.job
        self._executor = executor
        self.has_begun = False
        self.is_interrupted = False
        self.has_ended = False
        self.has_returned = False
        """False while the handler still occupies its slot, be the attempt over or not."""
        self.timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[Any] | None = None
        self.thread: Interruptible | None = None
        """What stops its thread, if it runs in one."""

    async def run(self) -> None:
        """Run the handler, on the loop or in a child, and have its outcome recorded."""
        # A coroutine begins here, when its turn comes; a child's attempt has begun before.
        if not self.has_begun and not self.begin():
            return
        outcome: Outcome | None
        try:
            if self.task.isolation is Isolation.PROCESS:
                outcome = await self._executor.call_in_child(self)
            else:
                args, kwargs = self._arguments()
                result = await self.task.function(*args, **kwargs)
                outcome = Succeeded(encode_result(result))
        except asyncio.CancelledError:
            outcome = await self._cancelled()
        except (SystemExit, KeyboardInterrupt) as error:
            # A task that ends with one of these takes the event loop, and the worker.
            outcome = classify(RuntimeError(f"the handler raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
            outcome = self._classified(error)
        self.finish(outcome)  # decide, and settle

    def start_in_thread(self) -> None:
        """Do the same for a ``def`` handler: only what comes before and after it is on the loop."""
        if self.begin():
            self.thread = Interruptible()
            self.future = self._executor.threads.call(self._call, self.thread)
            self.future.add_done_callback(self._returned)

    def start_in_child(self) -> None:
        """Have ``run`` do it in a task, for a handler that runs in a child process."""
        if self.begin():
            self.future = asyncio.get_running_loop().create_task(self.run())
            self.future.add_done_callback(self._returned)

    def begin(self) -> bool:
        """Resolve the task and apply its limits; return False if it may not begin any more.

        The limits: the lease is still ours, the time in which to start is not over, and a timer
        ends the attempt at its timeout. This is the one place where a handler begins (INV-25).
        """
        executor, held, job = self._executor, self.held, self.job
        started_at = self.started_at = executor.clock.monotonic()
        if held.is_dropped:
            executor.slots.free()
            return False
        if started_at > held.start_by:
            executor.came_late(held)
            return False
        task = executor.tasks[job.type]
        self.task = task if executor.tracing is None else executor.tracing.around(task, job)
        self.context = Context(
            job, executor.store, started_at, held.dependencies or (), executor.tasks
        )
        held.attempt = self
        self.has_begun = True
        del self.held  # or the two would refer to each other, and wait for the garbage collector
        executor.timers.arm(self)
        executor.slots.running[job.lease.token] = self
        executor.slots.reach.vain = 0
        if executor.is_verbose:
            log(
                names.ATTEMPT_STARTED,
                level=logging.DEBUG,
                id=job.id,
                type=job.type,
                attempt=job.attempt,
                correlation_id=job.correlation_id,
            )
        return True

    def finish(self, outcome: Outcome | None) -> None:
        """Free the slot of a handler that has come back; its outcome counts if none came first."""
        self.has_returned = True
        executor = self._executor
        if executor.leaked and self in executor.leaked:
            executor.regain(self)
        self.end(self._in_time(outcome) if self.is_interrupted else outcome)
        executor.slots.free()

    def end(self, outcome: Outcome | None) -> None:
        """Decide what becomes of the job, and have it recorded; None means nothing may be written.

        Only the first outcome counts. The handler may still be on its way back.
        """
        if self.has_ended:
            return
        self.has_ended = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        executor, job = self._executor, self.job
        settler = executor.settler
        executor.slots.running.pop(job.lease.token, None)
        if executor.shutdown.is_stopping:
            executor.slots.quiet.set()  # a handler that never comes back is not waited for
        seconds = executor.clock.monotonic() - self.started_at
        settler.ran[job.type, job.queue].append(seconds)
        if outcome is None:
            settler.drop(job)
            executor.counters.add(names.ATTEMPT_INTERRUPTED, reason=str(self.context.cancel_reason))
        elif self.context.has_joined or isinstance(outcome, Unreadable):
            executor.concluder.add(self, outcome)
        else:
            decision = decide(job, outcome, executor.rng, executor.backoffs)
            settler.add(settlement_of(job, decision))
        if outcome is None or executor.is_verbose:
            log(
                names.ATTEMPT_ENDED if outcome is not None else names.ATTEMPT_INTERRUPTED,
                level=logging.DEBUG if outcome is not None else logging.WARNING,
                id=job.id,
                type=job.type,
                attempt=job.attempt,
                seconds=seconds,
                reason=self.context.cancel_reason,
                correlation_id=job.correlation_id,
            )

    # Calling and classifying.

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        signature = self.task.signature
        args, kwargs = read_arguments(signature, self.job.payload)
        if signature.context_name is not None:
            kwargs[signature.context_name] = self.context
        return args, kwargs

    def _call(self) -> Outcome:
        """Call a ``def`` handler, in its thread."""
        args, kwargs = self._arguments()
        return Succeeded(encode_result(self.task.function(*args, **kwargs)))

    def _returned(self, future: asyncio.Future[Any]) -> None:
        """Finish an attempt in a thread, or one whose task was cancelled before its first step."""
        if self.has_returned:
            return
        if future.cancelled():
            self.finish(self.outcome_of_interruption())
        elif (error := future.exception()) is not None:
            self.finish(self._classified(error))
        else:
            self.finish(future.result())

    def _classified(self, error: BaseException) -> Outcome:
        if self.context.cancel_reason == "shutdown":
            return Released()  # it broke off because we asked it to
        return classify(error)

    async def _cancelled(self) -> Outcome | None:
        """Return the outcome of a handler that was cancelled.

        If that was not us: a loop that is closed cancels every task in any order, ours and the
        worker's own. A moment later the worker knows.
        """
        if self.is_interrupted or self.task.isolation is Isolation.PROCESS:
            return self.outcome_of_interruption()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # noqa: TID251 - waits for nothing
        if self._executor.shutdown.cancels:
            return Released()
        return classify(RuntimeError("the handler was cancelled, and not by its worker"))

    def _in_time(self, outcome: Outcome | None) -> Outcome | None:
        """Return *outcome*, unless the handler had been asked to stop: then it is too late."""
        reason = self.context.cancel_reason
        return outcome if reason in (None, "shutdown") else self.outcome_of_interruption()

    def outcome_of_interruption(self) -> Outcome | None:
        """Return what an interruption means; a lost or cancelled job is not ours to settle."""
        match self.context.cancel_reason:
            case "timeout":
                return timed_out(self.job.policy.timeout)
            case "shutdown":
                return Released()
            case _:
                return None

    # Interrupting.

    def interrupt(self, reason: CancelReason) -> None:
        """Ask the handler to stop, and end the attempt at once if it surely has."""
        if self.has_ended:
            return
        self.is_interrupted = True
        self.context.interrupt(reason)
        if self._executor.stop(self, reason):
            self.end(self.outcome_of_interruption())

    def give_up(self) -> None:
        """End the attempt although its handler goes on: it did not stop when interrupted."""
        self.end(self.outcome_of_interruption())


class AttemptTimers:
    """Interrupts attempts at their timeouts.

    Most attempts end long before: a timer is made only for those that still run a moment later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._unarmed: list[RunningAttempt] = []

    def arm(self, attempt: RunningAttempt) -> None:
        """See that an attempt that has just begun is interrupted at its timeout."""
        timeout = attempt.job.policy.timeout
        if timeout < ARMED_AT_ONCE:
            attempt.timer = self._loop.call_later(timeout, attempt.interrupt, "timeout")
            return
        if not self._unarmed:
            self._loop.call_later(ARM_AFTER, self._arm_rest)
        self._unarmed.append(attempt)

    def _arm_rest(self) -> None:
        unarmed, self._unarmed = self._unarmed, []
        now = self._clock.monotonic()
        for attempt in unarmed:
            if not attempt.has_ended:
                left = attempt.job.policy.timeout - (now - attempt.started_at)
                attempt.timer = self._loop.call_later(max(left, 0.0), attempt.interrupt, "timeout")
