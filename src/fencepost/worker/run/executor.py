"""Runs attempts: decode, call, classify; on the loop, in a thread, or in a child process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from fencepost.clock import Clock
from fencepost.core.bounds import INTERRUPT_GRACE, THROW_AGAIN
from fencepost.core.job.failure import classify
from fencepost.core.job.outcome import Outcome, Released, Succeeded
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.skew import read_arguments
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.store import Store
from fencepost.store.interruption import Interruptible
from fencepost.worker.process.children import Children
from fencepost.worker.run.attempt import OnEnd, RunningAttempt, Stop
from fencepost.worker.run.context import CancelReason, Context
from fencepost.worker.run.first_step import rest_of
from fencepost.worker.run.inflight import InFlightJob
from fencepost.worker.run.threads import Threads

if TYPE_CHECKING:
    from fencepost.observe.tracing import Tracing

TURN = 0.005
"""Seconds for which short handlers run one after the other before the loop gets its turn."""
ARM_AFTER = 0.05
"""Attempts shorter than this get no timer of their own."""
ARMED_AT_ONCE = 2 * ARM_AFTER
"""Attempts that may not even take so long get one at their start."""


class HandlerExecutor:
    """Starts attempts and sees that each delivers exactly one outcome."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        *,
        counters: Counters,
        tracing: Tracing | None = None,
        on_begin: Callable[[RunningAttempt], None],
        on_late: Callable[[InFlightJob], None],
        on_turn: Callable[[int, float], None] = lambda _, __: None,
        on_end: OnEnd,
        on_return: Callable[[], None],
        on_stuck: Callable[[RunningAttempt], None] = lambda _: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._clock: Clock = store.clock
        self._loop = asyncio.get_running_loop()
        self._tasks = tasks
        self._counters = counters
        self._tracing = tracing
        self._on_begin = on_begin
        self._on_late = on_late
        self._on_turn = on_turn
        self._on_end = on_end
        self._on_return = on_return
        self._on_stuck = on_stuck
        self._is_cancelled = is_cancelled
        self._threads = Threads()
        self._children = Children(store.url, counters, store.keys)
        # Attempts are begun from within others that have just ended; none inherits of another.
        self._context = contextvars.copy_context()
        self._line: deque[InFlightJob] = deque()
        """Jobs whose coroutines have not begun, in their order."""
        self._line_since = 0.0
        self._begun = 0
        """How many of the line have begun since then."""
        self._has_relay = False
        """Whether a task is about to take from the line, or is taking from it."""
        self._unarmed: list[RunningAttempt] = []
        self._leaked: set[RunningAttempt] = set()
        stops: dict[Isolation, Stop] = {
            Isolation.LOOP: self._stop_coroutine,
            Isolation.THREAD: self._stop_thread,
            Isolation.PROCESS: self._children.kill,
        }
        self._stops = {type_: stops[task.isolation] for type_, task in tasks.items()}

    def start(self, jobs: Iterable[InFlightJob]) -> None:
        """Start the attempts for which *jobs* were claimed; a slot is free for each."""
        if not self._line:
            self._line_since, self._begun = self._clock.monotonic(), 0
        for held in jobs:
            if self._tasks[held.job.type].isolation is Isolation.LOOP:
                self._line.append(held)
            elif (attempt := self._begin(held)) is not None:
                self._call(attempt)
        self._relay()

    def take_back(self) -> list[InFlightJob]:
        """Begin no more of what was started; return the jobs whose handlers have not begun."""
        left = list(self._line)
        self._line.clear()
        return left

    def _begin(self, held: InFlightJob) -> RunningAttempt | None:
        """Make the attempt, whose handler is called next; None if it may not begin any more."""
        started_at = self._clock.monotonic()
        if held.is_dropped:
            self._on_return()
            return None
        if started_at > held.start_by:
            self._on_late(held)
            return None
        job = held.job
        task = self._tasks[job.type]
        if self._tracing is not None:
            task = self._tracing.around(task, job)
        attempt = held.attempt = RunningAttempt(
            task,
            job,
            Context(job, self._store, started_at, held.dependencies or (), self._tasks),
            started_at,
            self._on_end,
            self._stops[job.type],
        )
        if self._unarmed and job.policy.timeout >= ARMED_AT_ONCE:
            self._unarmed.append(attempt)
        else:
            self._arm(attempt, self._loop)
        self._on_begin(attempt)
        return attempt

    def close(self) -> None:
        self._threads.close()
        self._children.close()

    def _call(self, attempt: RunningAttempt) -> None:
        """Call a handler outside of the loop."""
        if attempt.task.isolation is Isolation.THREAD:
            attempt.thread = Interruptible()
            attempt.future = self._threads.call(partial(_call_sync, attempt), attempt.thread)
        else:
            attempt.future = self._loop.create_task(self._run_child(attempt))
        attempt.future.add_done_callback(partial(self._returned, attempt))

    async def _run_child(self, attempt: RunningAttempt) -> Outcome:
        if self._tracing is None:
            return await self._children.run(attempt)
        return await self._tracing.watch(attempt.job, partial(self._children.run, attempt))

    def _relay(self) -> None:
        """See that a task takes from the line."""
        if self._line and not self._has_relay:
            self._has_relay = True
            self._loop.create_task(self._run_line(), context=self._context.copy())

    async def _run_line(self) -> None:
        """Run attempts of the line one after the other; once one waits, another task goes on.

        A task costs more than a short handler does. It is passed on only if nobody can tell: the
        handler never waited, set no context variable, and the task was not cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        context = contextvars.copy_context()
        turn_ends_at = self._clock.monotonic() + TURN
        has_waited = False
        try:
            while self._line:
                attempt = self._begin(self._line.popleft())
                if attempt is None:
                    continue
                self._begun += 1
                attempt.future = task
                try:
                    args, kwargs = _arguments(attempt)
                    called = attempt.task.function(*args, **kwargs)
                    is_plain = type(called) is CoroutineType  # else it is some other awaitable
                    try:
                        waits_for = called.send(None) if is_plain else None
                    except StopIteration as stop:
                        result = stop.value
                    else:
                        has_waited = True
                        self._pass_on()
                        result = await (rest_of(called, waits_for) if is_plain else called)
                    outcome: Outcome = Succeeded(encode_result(result))
                except asyncio.CancelledError:
                    if attempt.context.cancel_reason is not None:
                        raise
                    if not has_waited:
                        has_waited = True
                        self._pass_on()
                    outcome = await self._cancelled_elsewhere()
                except (SystemExit, KeyboardInterrupt) as error:
                    # A task that ends with one of these takes the event loop, and the worker.
                    outcome = classify(RuntimeError(f"the handler raised {error!r}"))
                except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
                    outcome = _outcome_of_error(attempt, error)
                is_interrupted = attempt.context.cancel_reason is not None
                # Told here: a callback would cost as much as a short handler does.
                self._finish(attempt, _in_time(attempt, outcome) if is_interrupted else outcome)
                is_changed = task.cancelling() or contextvars.copy_context() != context
                if has_waited or is_changed or attempt.started_at >= turn_ends_at:
                    return
        finally:
            if not has_waited:
                self._pass_on()

    def _pass_on(self) -> None:
        """Leave the rest of the line to another task, in the loop's next turn."""
        if self._begun:
            self._on_turn(self._begun, self._clock.monotonic() - self._line_since)
        self._has_relay = False
        self._relay()

    async def _cancelled_elsewhere(self) -> Outcome:
        """Return the outcome of a coroutine that was cancelled, and not by us.

        A loop that is closed cancels every task in any order, ours and the worker's own: a moment
        later the worker knows.
        """
        await asyncio.sleep(0)  # noqa: TID251 - waits for nothing
        if self._is_cancelled():
            return Released()
        return classify(RuntimeError("the handler was cancelled, and not by its worker"))

    # Timing out.

    def _arm(self, attempt: RunningAttempt, loop: asyncio.AbstractEventLoop) -> None:
        """See that the attempt is interrupted at its timeout.

        Most attempts end long before: a timer is made only for those that still run a moment later.
        """
        timeout = attempt.job.policy.timeout
        if timeout < ARMED_AT_ONCE:
            attempt.timer = loop.call_later(timeout, attempt.interrupt, "timeout")
            return
        if not self._unarmed:
            loop.call_later(ARM_AFTER, self._arm_rest, loop)
        self._unarmed.append(attempt)

    def _arm_rest(self, loop: asyncio.AbstractEventLoop) -> None:
        unarmed, self._unarmed = self._unarmed, []
        now = self._clock.monotonic()
        for attempt in unarmed:
            if not attempt.has_ended:
                left = attempt.job.policy.timeout - (now - attempt.started_at)
                attempt.timer = loop.call_later(max(left, 0.0), attempt.interrupt, "timeout")

    # Interrupting.

    def _stop_coroutine(self, attempt: RunningAttempt, reason: CancelReason) -> bool:
        """Cancel a coroutine, which may tidy up for a while; then give it up."""
        if attempt.future is not None:
            # A coroutine that is cancelled before its first step cannot say how it ended.
            attempt.future.add_done_callback(partial(self._returned, attempt))
            attempt.future.cancel(f"fencepost: {reason}")
        loop = asyncio.get_running_loop()
        loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
        return False

    def give_up(self, attempt: RunningAttempt, reason: CancelReason) -> None:
        """End an attempt although its handler goes on, if it still does; say so."""
        if not attempt.has_returned and not attempt.has_ended:
            self._leak(attempt, reason)
            attempt.give_up()
            if attempt.thread is not None:
                self._on_stuck(attempt)

    def _stop_thread(self, attempt: RunningAttempt, reason: CancelReason) -> bool:
        """Throw ``HandlerStopped`` into the thread, which may tidy up for a while; then give it up.

        A shutdown only asks at first: the thread may look at ``ctx.cancelled`` in time.
        """
        if reason != "shutdown":
            self.stop_thread(attempt)
            self._loop.call_later(INTERRUPT_GRACE, self.give_up, attempt, reason)
        return False

    def stop_thread(self, attempt: RunningAttempt) -> None:
        """Throw into the thread of an attempt, now or at the first moment that is good for it."""
        if attempt.thread is None or attempt.has_returned:
            return
        if not attempt.thread.stop():
            self._loop.call_later(THROW_AGAIN, self.stop_thread, attempt)

    def _leak(self, attempt: RunningAttempt, reason: CancelReason) -> None:
        self._leaked.add(attempt)
        self._counters.add(names.SLOT_LEAKED)
        log(
            names.SLOT_LEAKED,
            level=logging.WARNING,
            id=attempt.job.id,
            type=attempt.job.type,
            reason=reason,
            hint='the handler did not stop; isolation="process" can be killed',
            leaked=len(self._leaked),
        )

    # Returning.

    def _returned(self, attempt: RunningAttempt, future: asyncio.Future[Any]) -> None:
        """A future that stands for a handler is done; read its outcome, if it is still wanted."""
        outcome = _outcome_of(attempt, future)
        if not attempt.has_returned:
            self._finish(attempt, outcome)

    def _finish(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        """A handler has come back: its slot is free, and its outcome counts if none came first."""
        attempt.has_returned = True
        if self._leaked and attempt in self._leaked:
            self._leaked.discard(attempt)
            self._counters.add(names.SLOT_REGAINED)
            log(names.SLOT_REGAINED, id=attempt.job.id, type=attempt.job.type)
        attempt.end(outcome)
        self._on_return()


def _call_sync(attempt: RunningAttempt) -> Outcome:
    args, kwargs = _arguments(attempt)
    return Succeeded(encode_result(attempt.task.function(*args, **kwargs)))


def _arguments(attempt: RunningAttempt) -> tuple[list[Any], dict[str, Any]]:
    signature = attempt.task.signature
    args, kwargs = read_arguments(signature, attempt.job.payload)
    if signature.context_name is not None:
        kwargs[signature.context_name] = attempt.context
    return args, kwargs


def _outcome_of(attempt: RunningAttempt, future: asyncio.Future[Any]) -> Outcome | None:
    """Return the outcome of a handler that has returned, one way or another."""
    if future.cancelled():
        return attempt.outcome_of_interruption()
    error = future.exception()
    if error is not None:
        return _in_time(attempt, _outcome_of_error(attempt, error))
    return _in_time(attempt, future.result())


def _outcome_of_error(attempt: RunningAttempt, error: BaseException) -> Outcome:
    if attempt.context.cancel_reason == "shutdown":
        return Released()  # it broke off because we asked it to
    return classify(error)


def _in_time(attempt: RunningAttempt, outcome: Outcome) -> Outcome | None:
    """Return *outcome*, unless the handler had been told to stop: then it is too late to count."""
    reason = attempt.context.cancel_reason
    return outcome if reason in (None, "shutdown") else attempt.outcome_of_interruption()
