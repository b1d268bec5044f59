"""One attempt, made by a test in its own thread: claimed, called, classified, decided, settled.

It ends as a worker would end it, because everything that decides is the worker's own. What a worker
does beside is missing: no heartbeat, no execution timeout, no child process.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from fencepost.core.job.failure import classify, not_committed
from fencepost.core.job.job import ClaimedJob, Dependency, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Outcome, Succeeded, Unreadable, decide, settlement_of
from fencepost.core.job.task import Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.skew import UnreadPayload, read_arguments, with_past
from fencepost.errors import FencepostError, HandlerSignal
from fencepost.store.interface.joins import Fate
from fencepost.store.interface.replies import LeaseLost
from fencepost.store.interface.store import Store
from fencepost.worker import Backoffs, Context

T = TypeVar("T")

# A handler's failures. Not KeyboardInterrupt, nor what pytest raises to fail or skip a test.
FAILURES = (Exception, asyncio.CancelledError, SystemExit)

IN_A_LOOP = (
    "an `async def` handler cannot be run here, inside a running event loop; await the async face "
    "instead: `await drain.aio(…)`, `await check_idempotent.aio(…)`"
)


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that was made, and how it ended."""

    job_id: str
    type: str
    attempt: int
    state: State | None
    """The job's state after the attempt; None if the job is gone."""
    result: Any = None
    """What the handler returned, before it was encoded."""
    failure: Failure | None = None
    error: BaseException | None = None
    """What the handler raised."""

    def __repr__(self) -> str:
        ended = f"result={self.result!r}" if self.error is None else f"error={self.error!r}"
        return f"<Ran {self.type} attempt={self.attempt} state={self.state} {ended}>"


class CallEnd(msgspec.Struct, frozen=True):
    """How a call ended."""

    value: Any = None
    error: BaseException | None = None


Call = Callable[[], Any]
"""Calls a handler; returns its value, or something to await for it."""
Turns = Generator[Call, CallEnd, T]
"""Yields the calls it wants made and is sent how they ended; one logic for both faces."""


def arguments(task: Task, job: ClaimedJob, context: Context) -> tuple[list[Any], dict[str, Any]]:
    """Return what the handler is called with, or raise UnreadPayload."""
    args, kwargs = read_arguments(task.signature, job.payload)
    if task.signature.context_name is not None:
        kwargs[task.signature.context_name] = context
    return args, kwargs


def context_of(store: Store, job: ClaimedJob, tasks: Mapping[str, Task]) -> Context:
    """Return the context of an attempt that starts now, with what the job waited for."""
    dependencies: Sequence[Dependency] = ()
    if job.has_dependencies and tasks[job.type].signature.context_name is not None:
        (dependencies,) = store.run(store.reader.dependencies([job.id], with_results=True))
    return Context(job, store, store.clock.monotonic(), dependencies, tasks)


def conclude(
    store: Store,
    job: ClaimedJob,
    context: Context,
    ended: CallEnd,
    tasks: Mapping[str, Task] = MappingProxyType({}),
) -> Ran:
    """Settle an attempt as a worker would, and say what became of it."""
    outcome = _outcome(ended)
    fate = None
    if context.has_joined:
        (fate,) = store.run(store.joins.fates([context.joined]))
        if fate is Fate.UNDONE and isinstance(outcome, Succeeded):
            outcome = not_committed()
    if isinstance(outcome, Unreadable):
        outcome = with_past(outcome, store.run(store.reader.attempts(job.id)))
    if fate in (None, Fate.UNDONE):
        decision = decide(job, outcome, store.clock.rng, Backoffs(tasks))
        (reply,) = store.run(store.queue.settle([settlement_of(job, decision)]))
        state = reply.state
        is_lost = isinstance(reply, LeaseLost)
    else:
        (stored,) = store.run(store.reader.get([job.id]))
        state, is_lost = None if stored is None else stored.state, False
    return Ran(
        job_id=job.id,
        type=job.type,
        attempt=job.attempt,
        state=state,
        result=None if is_lost or isinstance(outcome, (Failed, Unreadable)) else ended.value,
        failure=outcome.failure if isinstance(outcome, (Failed, Unreadable)) else None,
        error=raised(ended),
    )


def raised(ended: CallEnd) -> BaseException | None:
    """Return what a test is shown of how a call ended."""
    return ended.error.error if isinstance(ended.error, UnreadPayload) else ended.error


def _outcome(ended: CallEnd) -> Outcome:
    error = ended.error
    if error is None:
        try:
            return Succeeded(encode_result(ended.value))
        except (FencepostError, HandlerSignal) as refused:
            return classify(refused)
    if isinstance(error, (asyncio.CancelledError, SystemExit)):
        error = RuntimeError(f"the handler raised {error!r}")
    return classify(error)


# Driving.


def drive(turns: Turns[T]) -> T:
    """Make every call in this thread; coroutines share one event loop, made for them."""
    ended: CallEnd | None = None
    runner = asyncio.Runner()  # makes its loop when it is first needed
    try:
        while True:
            call = next(turns) if ended is None else turns.send(ended)
            ended = _make(call, runner)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        turns.close()
        runner.close()


async def drive_async(turns: Turns[T]) -> T:
    """Make every call in this thread, coroutines on the event loop that runs in it."""
    ended: CallEnd | None = None
    try:
        while True:
            call = next(turns) if ended is None else turns.send(ended)
            ended = await _make_async(call)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        turns.close()


def _make(call: Call, runner: asyncio.Runner) -> CallEnd:
    try:
        value = call()
        if inspect.isawaitable(value):
            if _is_in_a_loop():
                _dispose(value)
                raise UnrunnableError(IN_A_LOOP)
            value = runner.run(_awaited(value))
        return CallEnd(value)
    except UnrunnableError:
        raise
    except FAILURES as error:
        return CallEnd(error=error)


async def _make_async(call: Call) -> CallEnd:
    try:
        value = call()
        return CallEnd(await value if inspect.isawaitable(value) else value)
    except FAILURES as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # the test itself is being ended
        return CallEnd(error=error)


class UnrunnableError(RuntimeError):
    """The call could not even be made: the test's mistake, not the handler's."""


async def _awaited(value: Any) -> Any:
    return await value


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _dispose(value: Any) -> None:
    """Spare the reader a warning about a coroutine that nobody awaited."""
    if inspect.iscoroutine(value):
        value.close()
