"""Calls an app's hooks: around each attempt, and after a failure.

A hook around an attempt is called with its context and ``call``, which runs the handler, or the
next hook inside. The outcome is the handler's own. What a hook raises fails the attempt, as if the
handler had raised it: before the handler or after it, so that a transaction that cannot be
committed is a failure. A failure of the handler remains a failure even if a hook
catches it.

A hook and a handler may each be ``def`` or ``async def``. An ``async def`` hook runs on the event
loop. A ``def`` hook runs in a thread: in the handler's own if that is a ``def`` as well. Context
variables that a hook sets are seen by everything inside it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from fencepost.core.hooks import FailedAttempt, Hook, Hooks
from fencepost.core.job.lifecycle import DEAD, Event
from fencepost.core.job.outcome import Decision
from fencepost.observe import names
from fencepost.observe.log import jobs_logger, write
from fencepost.worker.run.context import Context
from fencepost.worker.run.threads import Threads

Handler = Callable[[], Any]
"""Calls a handler with its arguments; returns its result, or an awaitable of it."""
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

_FAILURES = (Event.RETRY, Event.REJECT, Event.EXHAUST)


class _Inside:
    """The ``call`` of a hook: runs the handler once, and keeps its result or its exception."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._has_begun = False
        self._has_ended = False
        self._result: Any = None
        self._error: BaseException | None = None

    def call(self, handler: Handler) -> Any:
        self._begin()
        try:
            self._result = handler()
        except BaseException as error:
            self._error = error
            raise
        self._has_ended = True
        return self._result

    async def call_async(self, handler: Callable[[], Awaitable[Any]]) -> Any:
        self._begin()
        try:
            self._result = await handler()
        except BaseException as error:
            self._error = error
            raise
        self._has_ended = True
        return self._result

    def _begin(self) -> None:
        if self._has_begun:
            raise RuntimeError(f"the hook {self._hook.name} has called the handler twice")
        self._has_begun = True

    def outcome(self) -> Any:
        """Return the handler's result, or raise what it raised."""
        if self._error is not None:
            raise self._error
        if not self._has_ended:
            raise RuntimeError(
                f"the hook {self._hook.name} returned before the handler had: it has to call or "
                f"await `call()`"
            )
        return self._result


def call_hooked(
    chain: Sequence[Hook], ctx: Context, handler: Handler, *, is_async: bool, in_thread: InThread
) -> Any:
    """Call *handler* inside the hooks; return its result, or an awaitable if any of them awaits."""
    if not is_async and not any(hook.is_async for hook in chain):
        return call_in_turn(chain, ctx, handler)
    return call_awaited(chain, ctx, partial(_awaited, handler), in_thread)


async def _awaited(handler: Handler) -> Any:
    result = handler()
    return await result if inspect.isawaitable(result) else result


def call_in_turn(chain: Sequence[Hook], ctx: Context, handler: Handler) -> Any:
    """Call a ``def`` handler inside ``def`` hooks, in this thread."""
    if not chain:
        return handler()
    hook, *rest = chain
    inside = _Inside(hook)
    hook.function(ctx, partial(inside.call, partial(call_in_turn, rest, ctx, handler)))
    return inside.outcome()


async def call_awaited(
    chain: Sequence[Hook],
    ctx: Context,
    handler: Callable[[], Awaitable[Any]],
    in_thread: InThread,
) -> Any:
    """Await a handler inside hooks of either kind."""
    if not chain:
        return await handler()
    hook, *rest = chain
    inside = _Inside(hook)
    call = partial(inside.call_async, partial(call_awaited, rest, ctx, handler, in_thread))
    if hook.is_async:
        await hook.function(ctx, call)
    else:
        await _call_in_thread(hook, ctx, call, in_thread)
    return inside.outcome()


async def _call_in_thread(
    hook: Hook, ctx: Context, call: Callable[[], Awaitable[Any]], in_thread: InThread
) -> None:
    """Run a ``def`` hook in a thread, and what it calls on this loop."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Any]] = []
    is_stopped = False

    def start(context: contextvars.Context, done: Future[Any]) -> None:
        if is_stopped:  # before the hook had called
            done.cancel()
            return
        task = loop.create_task(_settled(call, done), context=context)
        tasks.append(task)

    def call_from_thread() -> Any:
        done: Future[Any] = Future()
        loop.call_soon_threadsafe(start, contextvars.copy_context(), done)
        return done.result()

    running = asyncio.ensure_future(in_thread(partial(hook.function, ctx, call_from_thread)))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        is_stopped = True
        for task in tasks:
            task.cancel()
        with suppress(BaseException):
            await running  # the hook cleans up, after the handler
        raise


async def _settled(call: Callable[[], Awaitable[Any]], done: Future[Any]) -> None:
    """Await *call*, and pass on how it ended to the thread that waits for it."""
    try:
        done.set_result(await call())
    except asyncio.CancelledError:
        done.cancel()
    except BaseException as error:  # noqa: BLE001 - raised in the thread of the hook
        done.set_exception(error)


class FailureHooks:
    """Calls ``on_failure`` and ``on_dead_letter``, beside everything else.

    They cannot change what becomes of the job: it has been decided. What they raise is logged.
    """

    def __init__(self, hooks: Hooks, threads: Threads) -> None:
        self._hooks = hooks
        self._threads = threads
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_needed(self) -> bool:
        return bool(self._hooks.on_failure or self._hooks.on_dead_letter)

    def add(self, ctx: Context, decision: Decision, error: BaseException | None) -> None:
        """Schedule the hooks for an attempt that ended with this decision."""
        failed = failed_attempt(decision, error)
        if failed is None:
            return
        is_dead = decision.state in DEAD
        for hook in self._hooks.after_failure(ctx.type, ctx.queue, is_dead=is_dead):
            task = asyncio.get_running_loop().create_task(self._call(hook, ctx, failed))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def finish(self, timeout: float) -> None:
        """Wait for the calls that are under way, for *timeout* at most."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout)

    async def _call(self, hook: Hook, ctx: Context, failed: FailedAttempt) -> None:
        try:
            if hook.is_async:
                await hook.function(ctx, failed)
            else:
                await self._threads.call(partial(hook.function, ctx, failed))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a hook cannot end a worker, or its loop
            log_failed_hook(hook, ctx, error)


def failed_attempt(decision: Decision, error: BaseException | None) -> FailedAttempt | None:
    """Return the argument of failure hooks; None if the attempt did not fail."""
    if decision.event not in _FAILURES or decision.failure is None:
        return None
    will_retry = decision.event is Event.RETRY
    return FailedAttempt(
        decision.failure, will_retry, decision.delay if will_retry else None, error
    )


def log_failed_hook(hook: Hook, ctx: Context, error: BaseException) -> None:
    """Log that a hook has raised; nothing else depends on it."""
    write(
        names.HOOK_FAILED,
        {"hook": hook.name, "id": ctx.job_id, "type": ctx.type, "attempt": ctx.attempt},
        level=logging.ERROR,
        text=f"the hook {hook.name} failed for {ctx.type} {ctx.job_id}: {error!r}",
        raised=error,
        to=jobs_logger,
    )
