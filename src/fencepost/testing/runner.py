"""Runs jobs in the thread of a test: ``drain``, and single attempts for ``check_idempotent``.

An attempt is claimed, called, classified, decided and settled by the worker's own code, so it ends
as it would in a worker. There is no heartbeat, no execution timeout and no child process.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost import generators
from fencepost.clock import Clock
from fencepost.core.bounds import WORKER_LEASE_TTL_DEFAULT, WORKER_TIMEOUT_GRACE
from fencepost.core.hooks import FailedAttempt, Hook, Hooks
from fencepost.core.job.failure import classify, not_committed
from fencepost.core.job.job import ClaimedJob, Dependency, Failure
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Failed, Outcome, Succeeded, Unreadable, decide, settlement_of
from fencepost.core.job.retryable import ExceptionRule
from fencepost.core.job.task import Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.signature import UnreadPayload, with_past
from fencepost.core.values.times import Duration, parse_duration, seconds_to_us
from fencepost.errors import ConfigurationError, FencepostError, HandlerSignal, Snooze
from fencepost.store.interface.joins import Fate
from fencepost.store.interface.queue import ClaimRequest, LeaseLost
from fencepost.store.interface.store import Store
from fencepost.testing.clock import FakeClock
from fencepost.worker import Backoffs, Context
from fencepost.worker.run.batch import BatchCall, call_of
from fencepost.worker.run.context import AttemptState, ContextActions
from fencepost.worker.run.hooks import call_hooked

if TYPE_CHECKING:
    from fencepost.app import App

T = TypeVar("T")

LIMIT = 1_000
STEP_MIN = 1e-6
WORKER = "drain"

Advance = Duration | Literal["all"] | None

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
"""Calls a handler; returns its value or an awaitable."""
Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end."""
Turns = Generator[Call, CallEnd, T]
"""A script whose steps are calls of handlers: it is sent how each ended."""


class Drain:
    """Runs an app's jobs in the caller's thread; ``aio`` is the same, awaited."""

    def __call__(
        self, app: App, *, advance: Advance = None, raises: bool = False, limit: int = LIMIT
    ) -> list[Ran]:
        """Run the jobs of *app* one after the other until nothing is claimable; return what ran.

        With *advance*, time moves on by that much, and stops wherever something falls due: a
        delayed job, a retry after its backoff, an expired lease. ``"all"`` goes on until nothing is
        left that could fall due. With *raises*, the first exception of a handler is raised here,
        once its attempt is settled. More than *limit* attempts are an AssertionError.
        """
        return drive(turns_of(app, advance, raises, limit))

    async def aio(
        self, app: App, *, advance: Advance = None, raises: bool = False, limit: int = LIMIT
    ) -> list[Ran]:
        """Do the same on the running event loop; a ``def`` handler runs in this thread as well."""
        return await drive_async(turns_of(app, advance, raises, limit))


drain = Drain()


def turns_of(app: App, advance: Advance, raises: bool, limit: int) -> Turns[list[Ran]]:
    """Run jobs inside the app's lifespan, if it has one."""
    lifespan = app.session.hooks.lifespan
    if lifespan is None:
        return (yield from _runs(app, advance, raises, limit, None))
    entered = lifespan()
    shared = yield entered.__aenter__
    if shared.error is not None:
        raise shared.error
    try:
        return (yield from _runs(app, advance, raises, limit, shared.value))
    finally:
        left = yield partial(entered.__aexit__, None, None, None)
        if left.error is not None:
            raise left.error


def _runs(app: App, advance: Advance, raises: bool, limit: int, shared: Any) -> Turns[list[Ran]]:
    store, tasks, hooks = app.store, app.session.tasks, app.session.hooks
    course = _Course(store.clock, advance)
    ran: list[Ran] = []
    while True:
        request = ClaimRequest(
            worker=WORKER,
            limit=1,
            types=frozenset(tasks),
            turn=len(ran),
            lease_ttl=app.timeouts.lease_ttl or WORKER_LEASE_TTL_DEFAULT,
            timeout_grace=WORKER_TIMEOUT_GRACE,
        )
        claim = store.run(store.queue.claim(request))
        for job in claim.jobs:
            if len(ran) >= limit:
                raise AssertionError(
                    f"drain() ran {limit:,} attempts and jobs are still due, the next of type "
                    f"{job.type!r}: do jobs submit each other without end? If not, allow more of "
                    f"them with limit="
                )
            task, chain = tasks[job.type], hooks.chain(job.type, job.queue)
            size = min(task.batch or 1, limit - len(ran))
            jobs = [job, *_more(store, request, job, size - 1)]
            batch = [actions_of(store, each, tasks, hooks=hooks, shared=shared) for each in jobs]
            if task.batch is None:
                ends = [(yield partial(_call, task, batch[0], chain))]
            else:
                ends = yield from _batch_ends(task, batch, chain)
            for actions, ended in zip(batch, ends, strict=True):
                ran.append(conclude(actions, ended, tasks))
                yield from _after(actions, ran[-1], hooks)
            for error in map(_shown_error, ends):
                if raises and error is not None and not isinstance(error, Snooze):
                    raise error
        if not claim.jobs and not course.move(claim.wait):
            return ran


def _more(store: Store, request: ClaimRequest, job: ClaimedJob, limit: int) -> list[ClaimedJob]:
    """Claim more jobs for the batch of *job*."""
    if limit == 0:
        return []
    alike = replace(request, limit=limit, types=frozenset([job.type]), queues={job.queue: 1})
    return list(store.run(store.queue.claim(alike)).jobs)


def _batch_ends(
    task: Task, batch: Sequence[ContextActions], chain: Sequence[Hook]
) -> Turns[list[CallEnd]]:
    """Call a batch handler once; return how that ended for each of its jobs."""
    call = BatchCall(task, [(Context(actions), actions.job.payload) for actions in batch])
    ended = CallEnd()
    if call.jobs:
        ended = yield partial(_call_inside, chain, call.jobs[0].ctx, call, task)
    ends = call.results(ended.value) if ended.error is None else call.failures(ended.error)
    return [
        CallEnd(error=each) if isinstance(each, BaseException) else CallEnd(each) for each in ends
    ]


def _call(task: Task, actions: ContextActions, chain: Sequence[Hook]) -> Any:
    return _call_inside(chain, Context(actions), handler_call(task, actions), task)


def _call_inside(chain: Sequence[Hook], ctx: Context, handler: Call, task: Task) -> Any:
    return call_hooked(
        chain,
        ctx,
        handler,
        is_async=inspect.iscoroutinefunction(task.function),
        in_thread=asyncio.to_thread,
    )


def _after(actions: ContextActions, ran: Ran, hooks: Hooks) -> Turns[None]:
    """Call ``on_failure`` and ``on_dead_letter``; what they raise is raised in the test."""
    if ran.failure is None or ran.state is None:
        return
    will_retry = not ran.state.is_terminal
    failed = FailedAttempt(ran.failure, will_retry, None, ran.error)
    job = actions.job
    for hook in hooks.after_failure(job.type, job.queue, is_dead=ran.state in DEAD):
        ended = yield partial(hook.function, Context(actions), failed)
        if ended.error is not None:
            raise ended.error


class _Course:
    """Moves the clock from one due time to the next, and no further than *advance* allows."""

    def __init__(self, clock: Clock, advance: Advance) -> None:
        self._clock: FakeClock | None = None
        self._end_us: int | None = None
        if advance is None:
            return
        if not isinstance(clock, FakeClock):
            raise ConfigurationError(
                "drain(advance=…) moves a FakeClock, and this app runs on real time; put it on "
                "one with memory_store(app)"
            )
        self._clock = clock
        if advance != "all":
            seconds = parse_duration(advance, name="advance")
            self._end_us = clock.now_us() + seconds_to_us(seconds)

    def move(self, wait: float | None) -> bool:
        """Move on by *wait* and return True; if that is too far, move to the end of the course."""
        if self._clock is None:
            return False
        if self._end_us is None:
            left = wait
        else:
            left = max(self._end_us - self._clock.now_us(), 0) / 1_000_000
        if left is None:
            return False
        if wait is None or wait > left:
            self._clock.advance(left)
            return False
        self._clock.advance(max(wait, STEP_MIN))
        return True


def handler_call(task: Task, actions: ContextActions) -> Call:
    """Return the handler's call for one job, or raise UnreadPayload."""
    return call_of(task, actions.job.payload, lambda: Context(actions))


def actions_of(
    store: Store,
    job: ClaimedJob,
    tasks: Mapping[str, Task],
    *,
    hooks: Hooks | None = None,
    shared: Any = None,
) -> ContextActions:
    """Return what the context does of an attempt that starts now, with the job's dependencies."""
    dependencies: Sequence[Dependency] = ()
    if job.has_dependencies and tasks[job.type].signature.context_name is not None:
        (dependencies,) = store.run(store.reader.dependencies([job.id], with_results=True))
    state = AttemptState(job, job.lease, store.clock.monotonic(), dependencies)
    return ContextActions(state, store, tasks, hooks=hooks, shared=shared)


def conclude(
    actions: ContextActions, ended: CallEnd, tasks: Mapping[str, Task] = MappingProxyType({})
) -> Ran:
    """Settle an attempt as a worker would, and return how it ended."""
    store, job = actions.store, actions.job
    task = tasks.get(job.type)
    outcome = _outcome(ended, None if task is None else task.rule)
    fate = None
    if actions.state.marks:
        (fate,) = store.run(store.joins.fates([actions.state.joined]))
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
        error=_shown_error(ended),
    )


def _shown_error(ended: CallEnd) -> BaseException | None:
    return ended.error.error if isinstance(ended.error, UnreadPayload) else ended.error


def _outcome(ended: CallEnd, rule: ExceptionRule | None) -> Outcome:
    error = ended.error
    if error is None:
        try:
            return Succeeded(encode_result(ended.value))
        except (FencepostError, HandlerSignal) as refused:
            return classify(refused)
    if isinstance(error, (asyncio.CancelledError, SystemExit)):
        error = RuntimeError(f"the handler raised {error!r}")
    return classify(error, rule)


def drive(turns: Turns[T], run: Run | None = None) -> T:
    """Make every call in this thread; *run* runs coroutines.

    By default they share one event loop, made on first use.
    """
    runner = asyncio.Runner()
    try:
        return generators.drive(turns, lambda call: _make(call, run or runner.run))
    finally:
        runner.close()


async def drive_async(turns: Turns[T]) -> T:
    """Make every call in this thread, coroutines on the event loop that runs in it."""
    return await generators.drive_async(turns, _make_async)


def _make(call: Call, run: Run) -> CallEnd:
    try:
        value = call()
        if inspect.isawaitable(value):
            if _is_in_a_loop():
                if inspect.iscoroutine(value):
                    value.close()  # else Python warns that it was never awaited
                raise UnrunnableError(IN_A_LOOP)
            value = run(_awaited(value))
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
    """The call could not be made: the test's mistake, not the handler's."""


async def _awaited(value: Any) -> Any:
    return await value


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
