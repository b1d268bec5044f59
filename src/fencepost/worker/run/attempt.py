"""One attempt: a handler called under a lease, until its first outcome.

``RunningAttempt.run`` is the whole path of a job in a worker, from top to bottom. A ``def``
handler takes the same path in a thread (``start_in_thread``), whose outcome ends it as well.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.clock import Clock
from fencepost.core.hooks import Hook
from fencepost.core.job.failure import classify, timed_out
from fencepost.core.job.outcome import (
    TOO_LATE,
    Decision,
    Outcome,
    Released,
    Succeeded,
    Unreadable,
    decide,
    settlement_of,
)
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.payload import encode_result
from fencepost.observe import names
from fencepost.observe.log import current_job, log_job
from fencepost.store.interruption import Interruptible
from fencepost.worker.run.batch import call_of
from fencepost.worker.run.context import AttemptState, CancelReason, Context
from fencepost.worker.run.hooks import call_awaited, call_in_turn
from fencepost.worker.run.inflight import InFlightJob
from fencepost.worker.run.report import report, report_stopped

if TYPE_CHECKING:
    from fencepost.worker.run.batch import RunningBatch
    from fencepost.worker.run.executor import HandlerExecutor


ARM_AFTER = 0.05
"""Seconds. Attempts shorter than this get no timer."""
ARMED_AT_ONCE = 2 * ARM_AFTER
"""Attempts with a shorter timeout than this get their timer at once."""


class RunningAttempt:
    """An attempt ends once: by its handler, or by an interruption that comes first."""

    __slots__ = (
        "_context",
        "_executor",
        "batch",
        "chain",
        "error",
        "future",
        "has_begun",
        "has_ended",
        "has_returned",
        "held",
        "is_interrupted",
        "job",
        "state",
        "task",
        "thread",
        "timer",
        "unbegun",
    )

    held: InFlightJob
    """Until it begins."""
    state: AttemptState
    """From then on."""
    task: Task

    def __init__(self, held: InFlightJob, executor: HandlerExecutor) -> None:
        self.held = held
        self.job = held.job
        self._executor = executor
        self.has_begun = False
        self.is_interrupted = False
        self.has_ended = False
        self.has_returned = False
        """False while the handler still occupies its slot, even if the attempt is over."""
        self.timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[Any] | None = None
        self.thread: Interruptible | None = None
        """Stops its thread, if it runs in one."""
        self.batch: RunningBatch | None = None
        """What it shares the call of its handler with."""
        self.unbegun: InFlightJob | None = None
        """What it holds, until its thread or its child has called the handler."""
        self.chain: Sequence[Hook] = ()
        """The hooks around it, the outermost first."""
        self._context: Context | None = None
        self.error: BaseException | None = None
        """What its handler raised, for the log."""

    async def run(self) -> None:
        """Run the handler, on the loop or in a child, and have its outcome recorded."""
        # A coroutine begins here, when its turn comes; a child's attempt has begun before.
        if not self.has_begun and not self.begin():
            return
        outcome: Outcome | None
        current_job.set(self.job)
        try:
            if self.task.isolation is Isolation.PROCESS:
                outcome = await self._executor.call_in_child(self)
            else:
                handler = self._handler()
                if self.is_in_time() and self.note_start():
                    result = await (self._inside_hooks(handler) if self.chain else handler())
                    outcome = Succeeded(encode_result(result))
                else:
                    outcome = TOO_LATE
        except asyncio.CancelledError:
            outcome = await self.cancelled()
        except (SystemExit, KeyboardInterrupt) as error:
            # An asyncio task that raises one of these ends the event loop, and so the worker.
            outcome = classify(RuntimeError(f"the handler raised {error!r}"), self.task.rule)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
            outcome = self.classified(error)
        finally:
            current_job.set(None)
        self.finish(outcome)  # decide, and settle

    def start_in_thread(self) -> None:
        """Do the same for a ``def`` handler: only what comes before and after it is on the loop."""
        if self.begin():
            self.thread = Interruptible()
            if any(hook.is_async for hook in self.chain):
                self.future = asyncio.get_running_loop().create_task(self.run())
            else:
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
        started_at = executor.clock.monotonic()
        if held.is_dropped:
            executor.slots.free()
            return False
        if started_at > held.start_by:
            executor.came_late(held)
            return False
        task = executor.tasks[job.type]
        self.task = task if executor.tracing is None else executor.tracing.around(task, job)
        self.state = AttemptState(job, job.lease, started_at, held.dependencies or ())
        if executor.hooks.around:
            self.chain = executor.hooks.chain(job.type, job.queue)
        held.attempt = self
        self.has_begun = True
        del self.held  # or the two would refer to each other, and wait for the garbage collector
        executor.timers.arm(self)
        executor.slots.running[job.lease.token] = self
        if task.isolation is not Isolation.LOOP:
            self.unbegun = held
        if task.isolation is not Isolation.THREAD:
            executor.slots.reach.vain = 0
        if executor.is_verbose:
            about = {"attempt": job.attempt, "correlation_id": job.correlation_id}
            log_job(names.ATTEMPT_STARTED, job, level=logging.DEBUG, **about)
        return True

    def is_in_time(self) -> bool:
        """Tell whether the handler may still begin, in the thread that is about to call it.

        Other threads may have kept the interpreter busy since ``begin``. If not, its outcome is
        TOO_LATE. One on the loop has just begun.
        """
        executor, held = self._executor, self.unbegun
        if held is not None and executor.clock.monotonic() > held.start_by:
            return False
        executor.slots.reach.vain = 0
        return True

    def note_start(self) -> bool:
        """Note that the handler is called now; return False if it must not be any more.

        The call follows at once. A job whose worker dies in between is counted, and did nothing:
        what a call needs, such as its arguments, is made before.
        """
        # Before the record: what is copied there meanwhile has to include this one.
        self.unbegun = None
        return self._executor.starts.add(self.job.lease.token)

    def finish(self, outcome: Outcome | None) -> None:
        """Free the slot of a handler that has returned; its outcome counts if it is the first."""
        self.has_returned = True
        executor = self._executor
        held, self.unbegun = self.unbegun, None
        if held is not None and outcome is TOO_LATE and not self.has_ended:
            executor.note_late(held)
        if executor.leaked and self in executor.leaked:
            executor.regain(self)
        try:
            self.end(self._in_time(outcome) if self.is_interrupted else outcome)
        finally:
            executor.slots.free()

    def end(self, outcome: Outcome | None) -> None:
        """Decide the job's next state and have it recorded; None means nothing may be written.

        Only the first outcome counts. The handler may not have returned yet.
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
        seconds = executor.clock.monotonic() - self.state.started_at
        if outcome is not TOO_LATE:
            settler.ran[job.type, job.queue].append(seconds)
        if outcome is None:
            settler.drop(job)
            executor.counters.add(names.ATTEMPT_INTERRUPTED, reason=str(self.state.cancel_reason))
            reason = self.state.cancel_reason
            report_stopped(job, reason, seconds=seconds, worker=executor.worker)
        elif self.state.marks or isinstance(outcome, Unreadable):
            executor.concluder.add(self, outcome)
        else:
            decision = decide(job, outcome, executor.rng, executor.backoffs)
            settler.add(settlement_of(job, decision))
            if outcome is TOO_LATE:
                return  # it has never run
            if executor.is_telling or outcome.__class__ is not Succeeded:
                self.report(decision, seconds)

    def report(self, decision: Decision, seconds: float) -> None:
        """Log how this attempt ended, and call the hooks that want to know."""
        executor = self._executor
        error = self.error
        report(self.job, decision, seconds=seconds, worker=executor.worker, error=error)
        self.call_failure_hooks(decision)

    def call_failure_hooks(self, decision: Decision) -> None:
        """Call the hooks that want to know of a failure, if it is one."""
        hooks = self._executor.failure_hooks
        error, self.error = self.error, None
        if hooks.is_needed and decision.failure is not None:
            hooks.add(self.context, decision, error)

    def _handler(self) -> Callable[[], Any]:
        """Return the call of the handler with its arguments."""
        return call_of(self.task, self.job.payload, lambda: self.context)

    @property
    def context(self) -> Context:
        """What the handler and the hooks are given."""
        if self._context is None:
            self._context = self._executor.context_of(self.state)
        return self._context

    def _call(self) -> Outcome:
        """Call a ``def`` handler inside ``def`` hooks, in its thread."""
        current_job.set(self.job)
        handler = self._handler()
        if not (self.is_in_time() and self.note_start()):
            return TOO_LATE
        result = call_in_turn(self.chain, self.context, handler) if self.chain else handler()
        return Succeeded(encode_result(result))

    async def _inside_hooks(self, handler: Callable[[], Awaitable[Any]]) -> Any:
        if self.thread is not None:
            handler = partial(self._in_thread, handler)
        return await call_awaited(self.chain, self.context, handler, self._executor.in_thread)

    async def _in_thread(self, handler: Callable[[], Any]) -> Any:
        """Call a ``def`` handler in a thread, inside hooks on the loop."""
        context = contextvars.copy_context()
        return await self._executor.threads.call(partial(context.run, handler), self.thread)

    def _returned(self, future: asyncio.Future[Any]) -> None:
        """Finish an attempt in a thread, or one whose task was cancelled before its first step."""
        if self.has_returned:
            return
        if future.cancelled():
            self.finish(self.outcome_before_start())
        elif (error := future.exception()) is not None:
            self.finish(self.classified(error))
        else:
            self.finish(future.result())

    def classified(self, error: BaseException) -> Outcome:
        """Return the outcome of an attempt whose handler raised *error*."""
        if self.state.cancel_reason == "shutdown":
            return Released()  # it stopped because we asked it to
        self.error = error
        return classify(error, self.task.rule)

    async def cancelled(self) -> Outcome | None:
        """Return the outcome of a handler that was cancelled.

        If the worker did not cancel it: a closing loop cancels every task in any order, the
        handler's before the worker's own. A moment later the worker knows.
        """
        if self.is_interrupted or self.task.isolation is Isolation.PROCESS:
            return self.outcome_of_interruption()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # noqa: TID251 - waits for nothing
        if self._executor.shutdown.cancels:
            return Released()
        unasked = RuntimeError("the handler was cancelled, and not by its worker")
        return classify(unasked, self.task.rule)

    def _in_time(self, outcome: Outcome | None) -> Outcome | None:
        """Return *outcome*, unless the handler was interrupted before: then it is too late."""
        reason = self.state.cancel_reason
        return outcome if reason in (None, "shutdown") else self.outcome_of_interruption()

    def outcome_of_interruption(self) -> Outcome | None:
        """Return the outcome of an interruption; None if the job is lost or cancelled."""
        match self.state.cancel_reason:
            case "timeout":
                return timed_out(min(self.job.policy.timeout, self.state.timeout))
            case "shutdown":
                return Released()
            case _:
                return None

    def outcome_before_start(self) -> Outcome | None:
        """Return the outcome of a handler whose task was cancelled before its first step.

        If the worker did not cancel it, a closing loop did: the job has not started (C41).
        """
        return self.outcome_of_interruption() if self.is_interrupted else Released()

    def interrupt(self, reason: CancelReason) -> None:
        """Ask the handler to stop, and end the attempt at once if it surely has stopped.

        In a batch that goes on for other jobs, the attempt ends at once as well.
        """
        # A coroutine is cancelled once: a second time would cut off its clean-up.
        if self.has_ended or (self.is_interrupted and self.task.isolation is Isolation.LOOP):
            return
        self.is_interrupted = True
        if self.state.cancel_reason is None:
            self.state.cancel_reason = reason
        goes_on = self.batch is not None and self.batch.goes_on_without(self, reason)
        if goes_on or self._executor.stop(self, reason):
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
        """Interrupt an attempt that has just begun at its timeout."""
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
                timeout = min(attempt.job.policy.timeout, attempt.state.timeout)
                left = timeout - (now - attempt.state.started_at)
                attempt.timer = self._loop.call_later(max(left, 0.0), attempt.interrupt, "timeout")
