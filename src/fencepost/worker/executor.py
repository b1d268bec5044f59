"""Runs attempts: decode, call, classify; on the loop, in a thread, or in a child process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from fencepost.clock import Clock
from fencepost.core.failure import classify
from fencepost.core.job import ClaimedJob
from fencepost.core.limits import INTERRUPT_GRACE
from fencepost.core.outcome import Outcome, Succeeded
from fencepost.core.payload import encode
from fencepost.core.task import Isolation, Task
from fencepost.errors import InvalidPayloadError, PermanentError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.protocol import Store
from fencepost.worker.attempt import Attempt, OnEnd
from fencepost.worker.children import Children
from fencepost.worker.context import CancelReason, Context
from fencepost.worker.threads import Threads


class Executor:
    """Starts attempts and sees that each delivers exactly one outcome."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        *,
        counters: Counters,
        on_end: OnEnd,
        on_return: OnEnd,
    ) -> None:
        self._store = store
        self._clock: Clock = store.clock
        self._tasks = tasks
        self._counters = counters
        self._on_end = on_end
        self._on_return = on_return
        self._threads = Threads()
        self._children = Children(store.url, counters)
        self._running: set[asyncio.Future[Any]] = set()

    def start(self, job: ClaimedJob) -> Attempt:
        """Start the attempt for which *job* was claimed."""
        task = self._tasks[job.type]
        timeout = job.policy.timeout
        deadline = self._clock.now() + timedelta(seconds=timeout)
        context = Context(job, store=self._store, deadline=deadline)
        attempt = Attempt(task, job, context, self._on_end)
        attempt.started_at = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        attempt.timer = loop.call_later(timeout, attempt.interrupt, "timeout")
        future = self._call(attempt, loop)
        self._running.add(future)
        future.add_done_callback(partial(self._returned, attempt))
        return attempt

    def close(self) -> None:
        self._threads.close()
        self._children.close()

    def _call(self, attempt: Attempt, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        match attempt.task.isolation:
            case Isolation.LOOP:
                task = loop.create_task(_call_async(attempt))
                attempt.stop_handler = partial(self._stop_coroutine, attempt, task)
                return task
            case Isolation.THREAD:
                attempt.stop_handler = partial(self._stop_thread, attempt)
                return self._threads.call(partial(_call_sync, attempt))
            case Isolation.PROCESS:
                task = loop.create_task(self._children.run(attempt))
                attempt.stop_handler = partial(self._children.kill, attempt)
                return task

    # Interrupting.

    def _stop_coroutine(
        self, attempt: Attempt, task: asyncio.Task[Any], reason: CancelReason
    ) -> bool:
        """Cancel a coroutine, which may tidy up for a while; then give it up."""
        task.cancel(f"fencepost: {reason}")
        loop = asyncio.get_running_loop()
        loop.call_later(INTERRUPT_GRACE, self._give_up, attempt, reason)
        return False

    def _give_up(self, attempt: Attempt, reason: CancelReason) -> None:
        if not attempt.has_returned and not attempt.has_ended:
            self._leak(attempt, reason)
            attempt.give_up()

    def _stop_thread(self, attempt: Attempt, reason: CancelReason) -> bool:
        """End the attempt and count the slot as leaked: a thread cannot be stopped.

        A shutdown waits instead: the thread may still look at ``ctx.cancelled`` in time.
        """
        if reason == "shutdown":
            return False
        self._leak(attempt, reason)
        return True

    def _leak(self, attempt: Attempt, reason: CancelReason) -> None:
        self._counters.add(names.SLOT_LEAKED)
        log(
            names.SLOT_LEAKED,
            level=logging.WARNING,
            id=attempt.job.id,
            type=attempt.job.type,
            reason=reason,
            hint='the handler did not stop; isolation="process" can be killed',
        )

    # Returning.

    def _returned(self, attempt: Attempt, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        attempt.has_returned = True
        outcome = _outcome_of(attempt, future)
        if attempt.has_ended:
            self._counters.add(names.SLOT_REGAINED)
        attempt.end(outcome)
        self._on_return(attempt, outcome)


async def _call_async(attempt: Attempt) -> Outcome:
    args, kwargs = _arguments(attempt)
    return _succeeded(await attempt.task.function(*args, **kwargs))


def _call_sync(attempt: Attempt) -> Outcome:
    args, kwargs = _arguments(attempt)
    return _succeeded(attempt.task.function(*args, **kwargs))


def _arguments(attempt: Attempt) -> tuple[list[Any], dict[str, Any]]:
    signature = attempt.task.signature
    args, kwargs = signature.decode(attempt.job.payload)
    if signature.context_name is not None:
        kwargs[signature.context_name] = attempt.context
    return args, kwargs


def _succeeded(value: Any) -> Succeeded:
    try:
        return Succeeded(encode(value))
    except InvalidPayloadError as error:
        raise PermanentError(f"the result {error}", error, code="invalid_result") from None


def _outcome_of(attempt: Attempt, future: asyncio.Future[Any]) -> Outcome | None:
    """Return the outcome of a handler that has returned, one way or another."""
    if attempt.context.cancel_reason in ("timeout", "lease_lost", "cancelled"):
        # Whatever it did after it was told to stop, it is too late to count.
        future.cancelled() or future.exception()
        return attempt.outcome_of_interruption()
    if future.cancelled():
        return attempt.outcome_of_interruption()
    error = future.exception()
    if error is not None:
        return classify(error)
    outcome: Outcome = future.result()
    return outcome
