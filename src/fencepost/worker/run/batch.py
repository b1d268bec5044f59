"""Batch handlers: one call for several jobs of one type and queue.

Each job keeps its own attempt: lease, heartbeats, context, outcome, retries. They share the call:

- It begins when the batch is full, or after ``batch_wait``.
- Its timeout is the shortest of its jobs. Then it is stopped, and all of its jobs have timed out.
- A job that is cancelled, or whose lease is lost, drops out: its ``ctx.cancelled`` is true, and
  what the handler returns for it is ignored. The call is stopped when its last job drops out.
- A payload that cannot be read fails its own job, and the handler does not see it.
- Hooks around the attempt are called once, with the context of the first job.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.core.bounds import BATCH_MARGIN
from fencepost.core.job.job import Body
from fencepost.core.job.outcome import TOO_LATE, Outcome, Succeeded
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.batch import PAYLOAD, each_result
from fencepost.core.values.payload import encode_result
from fencepost.core.values.signature import read_arguments
from fencepost.errors import PermanentError
from fencepost.observe import names
from fencepost.observe.log import write
from fencepost.store.interruption import Interruptible
from fencepost.worker.run.context import BatchJob, CancelReason, Context
from fencepost.worker.run.hooks import call_awaited, call_in_turn

if TYPE_CHECKING:
    from fencepost.core.job.job import ClaimedJob
    from fencepost.worker.run.attempt import RunningAttempt
    from fencepost.worker.run.executor import HandlerExecutor
    from fencepost.worker.run.inflight import InFlightJob


def call_of(task: Task, payload: Body, context: Callable[[], Context]) -> Callable[[], Any]:
    """Return the call of a handler for one job, or raise UnreadPayload.

    *context* is called only if the handler takes one, as most do not. A batch handler gets a list
    of one; an exception that it returns is raised.
    """
    args, kwargs = read_arguments(task.signature, payload)
    if task.batch is not None:
        return partial(_call_alone, task.function, BatchJob(kwargs[PAYLOAD], context()))
    if task.signature.context_name is not None:
        kwargs[task.signature.context_name] = context()
    return partial(task.function, *args, **kwargs)


def _call_alone(function: Callable[..., Any], job: BatchJob[Any]) -> Any:
    returned = function([job])
    return _alone_async(returned) if inspect.isawaitable(returned) else _only(returned)


async def _alone_async(returned: Awaitable[Any]) -> Any:
    return _only(await returned)


def _only(returned: object) -> Any:
    (result,) = each_result(returned, 1)
    if isinstance(result, BaseException):
        raise result
    return result


class BatchCall:
    """The call of a batch handler: which jobs it is given, and what its end means for each."""

    def __init__(self, task: Task, given: Sequence[tuple[Context, Body]]) -> None:
        """Read the payload of each context's job; a job that cannot be read has failed."""
        self._function = task.function
        self.jobs: list[BatchJob[Any]] = []
        self._errors: list[Exception | None] = []
        for ctx, payload in given:
            try:
                _, kwargs = read_arguments(task.signature, payload)
            except Exception as error:  # noqa: BLE001 - the end of this job alone
                self._errors.append(error)
            else:
                self._errors.append(None)
                self.jobs.append(BatchJob(kwargs[PAYLOAD], ctx))

    def __call__(self) -> Any:
        return self._function(self.jobs)

    def results(self, returned: object) -> list[Any]:
        """Return a result or an exception for each context, in their order."""
        try:
            results = iter(each_result(returned, len(self.jobs)))
        except PermanentError as error:
            return self.failures(error)
        return [next(results) if error is None else error for error in self._errors]

    def failures(self, raised: BaseException) -> list[BaseException]:
        """Return an exception for each context, after the handler raised or failed otherwise."""
        return [raised if error is None else error for error in self._errors]


def warn_of_small_batches(tasks: Mapping[str, Task], slots: int) -> None:
    """Log which tasks want larger batches than *slots* jobs, so that their batches are never full.

    Each job of a batch takes a slot: it counts in every limit, and starts when it is claimed.
    """
    for type, task in tasks.items():
        if task.batch is not None and task.batch > slots:
            text = (
                f"{type} takes batches of {task.batch}, but this worker has {slots} slots and each "
                f"job takes one: its batches have {slots} jobs at most; for whole ones, start it "
                f"with --concurrency {task.batch}"
            )
            fields = {"type": type, "batch": task.batch, "slots": slots}
            write(names.BATCH_LIMITED, fields, level=logging.WARNING, text=text)


class Batches:
    """The batches that wait for more jobs."""

    def __init__(self, executor: HandlerExecutor) -> None:
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._open: dict[tuple[str, str], list[RunningAttempt]] = {}

    def add(self, attempt: RunningAttempt, task: Task) -> None:
        """Add an attempt to the open batch of its type and queue; start the batch if it is full."""
        key = (attempt.job.type, attempt.job.queue)
        waiting = self._open.setdefault(key, [])
        waiting.append(attempt)
        assert task.batch is not None
        # Each job takes a slot, so a batch cannot have more jobs than there are slots.
        if len(waiting) >= min(task.batch, self._executor.slots.count):
            self._start(key, waiting)
        elif len(waiting) == 1 or attempt.held.start_by < waiting[-2].held.start_by:
            # No job may become late by waiting (C42); a later one may have to start earlier.
            left = attempt.held.start_by - BATCH_MARGIN - self._executor.clock.monotonic()
            wait = max(min(task.batch_wait, left), 0.0)
            self._loop.call_later(wait, self._start, key, waiting)

    def take_back(self) -> list[InFlightJob]:
        """Start no more batches; return the jobs of those that have not started."""
        left = [attempt.held for waiting in self._open.values() for attempt in waiting]
        self._open.clear()
        return left

    def _start(self, key: tuple[str, str], waiting: list[RunningAttempt]) -> None:
        if self._open.get(key) is waiting:
            del self._open[key]
            begun = [attempt for attempt in waiting if attempt.begin()]
            if begun:
                RunningBatch(begun, self._executor).start()


class RunningBatch:
    """Attempts that share one call of their handler."""

    def __init__(self, attempts: Sequence[RunningAttempt], executor: HandlerExecutor) -> None:
        self._attempts = attempts
        self._executor = executor
        first = attempts[0]
        task = executor.tasks[first.job.type]
        if executor.tracing is not None:
            task = executor.tracing.around(task, *[each.job for each in attempts])
        self._task = task
        self._begun: Sequence[RunningAttempt] = ()
        """Those that the handler is called for: the others came too late."""
        self._chain = first.chain
        self._has_timed_out = False

    @property
    def job(self) -> ClaimedJob:
        """The first of its jobs, which stands for all in the log of a blocked loop."""
        return self._attempts[0].job

    def start(self) -> None:
        """Call the handler, on the loop or in a thread."""
        timeout = min(each.job.policy.timeout for each in self._attempts)
        thread = Interruptible() if self._task.isolation is Isolation.THREAD else None
        future: asyncio.Future[list[Outcome | None]]
        if thread is None or any(hook.is_async for hook in self._chain):
            future = asyncio.get_running_loop().create_task(self.run(thread))
        else:
            future = self._executor.threads.call(self._call, thread)
        for attempt in self._attempts:
            attempt.state.timeout = timeout
            attempt.batch, attempt.future, attempt.thread = self, future, thread
        future.add_done_callback(self._returned)

    def goes_on_without(self, attempt: RunningAttempt, reason: CancelReason) -> bool:
        """Return whether the call goes on for other jobs although *attempt* is interrupted."""
        others = [each for each in self._attempts if each is not attempt and not each.has_ended]
        if reason == "timeout" and not self._has_timed_out:
            self._has_timed_out = True
            for other in others:
                other.interrupt(reason)
        return bool(others) and reason in ("cancelled", "lease_lost")

    async def run(self, thread: Interruptible | None) -> list[Outcome | None]:
        """Call the handler on the loop, or in a thread inside hooks on the loop."""
        call = self._read()
        try:
            handler = call if thread is None else partial(self._in_thread, call, thread)
            if not self._note_starts():
                return self._outcomes(())
            if not call.jobs:
                returned = None
            elif self._chain:
                ctx, in_thread = call.jobs[0].ctx, self._executor.in_thread
                returned = await call_awaited(self._chain, ctx, handler, in_thread)
            else:
                returned = await handler()
            return self._outcomes(call.results(returned))
        except asyncio.CancelledError:
            return [await attempt.cancelled() for attempt in self._attempts]
        except (SystemExit, KeyboardInterrupt) as error:
            # An asyncio task that raises one of these ends the event loop, and so the worker.
            return self._outcomes(call.failures(RuntimeError(f"the handler raised {error!r}")))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome of all
            return self._outcomes(call.failures(error))

    def _call(self) -> list[Outcome | None]:
        """Call a ``def`` handler inside ``def`` hooks, in its thread."""
        call = self._read()
        try:
            if not self._note_starts():
                return self._outcomes(())
            returned = call_in_turn(self._chain, call.jobs[0].ctx, call) if call.jobs else None
        except BaseException as error:  # noqa: BLE001 - as above
            return self._outcomes(call.failures(error))
        return self._outcomes(call.results(returned))

    async def _in_thread(self, handler: Callable[[], Any], thread: Interruptible) -> Any:
        context = contextvars.copy_context()
        return await self._executor.threads.call(partial(context.run, handler), thread)

    def _read(self) -> BatchCall:
        self._begun = [attempt for attempt in self._attempts if attempt.is_in_time()]
        given = [(attempt.context, attempt.job.payload) for attempt in self._begun]
        return BatchCall(self._task, given)

    def _note_starts(self) -> bool:
        """Note that the handler is called now; return False if it must not be any more.

        After the payloads were read, which takes long for a large batch.
        """
        if all(attempt.note_start() for attempt in self._begun):
            return True
        self._begun = ()  # the worker has ended, and this thread has outlived it
        return False

    def _outcomes(self, results: Sequence[object]) -> list[Outcome | None]:
        outcomes: dict[RunningAttempt, Outcome | None] = dict.fromkeys(self._attempts, TOO_LATE)
        outcomes |= {
            each: _outcome(each, it) for each, it in zip(self._begun, results, strict=True)
        }
        return [outcomes[attempt] for attempt in self._attempts]

    def _returned(self, future: asyncio.Future[list[Outcome | None]]) -> None:
        outcomes: Sequence[Outcome | None]
        if future.cancelled():
            outcomes = [attempt.outcome_before_start() for attempt in self._attempts]
        elif (error := future.exception()) is not None:
            outcomes = [attempt.classified(error) for attempt in self._attempts]
        else:
            outcomes = future.result()
        for attempt, outcome in zip(self._attempts, outcomes, strict=True):
            attempt.finish(outcome)
            attempt.batch = None  # or the two would wait for the garbage collector


def _outcome(attempt: RunningAttempt, result: object) -> Outcome:
    """Return the outcome of one job: its result, or the exception that stands in its place."""
    if not isinstance(result, BaseException):
        try:
            return Succeeded(encode_result(result))
        except Exception as error:  # noqa: BLE001 - the outcome of this job alone
            result = error
    return attempt.classified(result)
