"""Child processes for ``isolation="process"``: one handler at a time each, killed if necessary.

A child imports the handler by its module and name, runs it, and sends back the outcome. It is
reused for the next job, and dies with its worker. ``Children`` is the worker's end of the pipe,
``main`` the child's. If a child dies, its attempt has failed, see ``Children._died``. Before its
handler's first line a child asks its worker, which notes the start: what a worker that dies had
given to children that were still starting has not started (C41).
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.clock import SystemClock
from fencepost.core.encryption import KeyRing
from fencepost.core.job.failure import classify, crashed
from fencepost.core.job.hooks import Hooks
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Failed, Outcome, Snoozed, Succeeded, Unreadable
from fencepost.core.job.retryable import ExceptionRule
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.signature import Signature, read_arguments
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import configure, configured, current_job, log, log_job
from fencepost.platform.processes import PIPE_ROOM, resident_memory, wait_for_message
from fencepost.store.open import LazyStore
from fencepost.worker.retirement import as_megabytes
from fencepost.worker.run.context import NO_TASKS, AttemptState, Context, ContextActions
from fencepost.worker.run.hooks import call_hooked

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt

ReturnedOutcome = Succeeded | Failed | Snoozed | Unreadable

CHILD_START_MAX = 10.0
"""Seconds for which a worker waits for its first child before it claims."""
CHILD_END_MAX = 5.0
"""Seconds in which idle children end at a shutdown, all together; then they are killed."""


ImportedName = tuple[str, str]
"""A module, and a name in it."""


class ChildRequest(msgspec.Struct, frozen=True):
    """What a child is to run."""

    module: str
    qualname: str
    job: ClaimedJob
    dependencies: tuple[Dependency, ...] = ()
    on: tuple[ImportedName, ...] | None = None
    """The exceptions that are retried, by name: a class cannot be sent."""
    never: tuple[ImportedName, ...] = ()
    trace_tags: dict[str, str] = {}
    """For the jobs that it spawns: the context of the attempt's span, which the worker makes."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """A child's first message: it has started, and has imported its handlers."""


class Starting(msgspec.Struct, frozen=True, tag=True):
    """A child's message that it waits for GO, to call the handler."""


class Marked(msgspec.Struct, frozen=True, tag=True):
    """A child's message, before its outcome, that it completes the job in this transaction."""

    mark: str


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(ChildRequest)
ChildMessage = ReturnedOutcome | Marked | Ready | Starting
_answers: msgspec.msgpack.Decoder[ChildMessage] = msgspec.msgpack.Decoder(ChildMessage)
GO = b"go"
"""The worker's answer to Starting: the start is on record."""


@dataclass(eq=False, slots=True)
class Child:
    """One process and the pipe to it."""

    process: SpawnProcess
    pipe: Connection


class Children:
    """As many child processes as there are isolated attempts at once; idle ones are reused."""

    def __init__(
        self,
        url: str,
        counters: Counters,
        keys: KeyRing | None = None,
        *,
        max_rss: int | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        self._max_rss = max_rss
        self._preload = preload
        self._url = url
        self._keys = keys
        self._counters = counters
        self._context = multiprocessing.get_context("spawn")
        self._modules = preload
        """Where the handlers are, for a child to import them as it starts."""
        self._idle: deque[Child] = deque()
        self._busy: dict[str, Child] = {}

    async def warm_up(self, tasks: Iterable[Task]) -> None:
        """Start the first child before its first job, which would wait for Python to start."""
        isolated = [task for task in tasks if task.isolation is Isolation.PROCESS]
        modules = {task.function.__module__ for task in isolated}
        self._modules = (*self._preload, *sorted(modules))
        if isolated:
            with suppress(Exception):  # then the first job says what is wrong
                self._idle.append(self._ready_child())
                async with asyncio.timeout(CHILD_START_MAX):
                    await _answer(self._idle[0].pipe)

    async def run(
        self, attempt: RunningAttempt, trace_tags: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run an attempt in a child, and return its outcome also if the child dies."""
        if attempt.has_ended:
            return crashed("interrupted before a child was there to be killed")
        child = self._ready_child()
        self._busy[attempt.job.lease.token] = child
        try:
            return await self._converse(child, attempt, dict(trace_tags or {}))
        finally:
            self._busy.pop(attempt.job.lease.token, None)

    async def _converse(
        self, child: Child, attempt: RunningAttempt, trace_tags: dict[str, str]
    ) -> Outcome:
        function, rule = attempt.task.function, attempt.task.rule
        request = ChildRequest(
            function.__module__,
            function.__qualname__,
            attempt.job,
            tuple(attempt.state.dependencies),
            on=None if rule is None or rule.on is None else _names(rule.on),
            never=() if rule is None else _names(rule.never),
            trace_tags=trace_tags,
        )
        try:
            await _send(child.pipe, _encoder.encode(request))
            while isinstance(answer := await _answer(child.pipe), (Marked, Ready, Starting)):
                if isinstance(answer, Marked):
                    attempt.state.note_mark(answer.mark)
                elif isinstance(answer, Starting) and attempt.note_start():
                    child.pipe.send_bytes(GO)
        except (EOFError, OSError) as error:
            return self._died(child, error, attempt.job)
        if child.process.is_alive() and not self._retire(child):
            self._idle.append(child)
        return answer

    def _retire(self, child: Child) -> bool:
        """Let a child that uses too much memory exit; the next job starts another."""
        rss = 0 if self._max_rss is None else resident_memory(child.process.pid)
        if self._max_rss is None or rss <= self._max_rss:
            return False
        child.pipe.close()
        log(names.CHILD_REPLACED, pid=child.process.pid, reason="max_rss", rss=as_megabytes(rss))
        return True

    def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
            child.pipe.close()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=main,
            args=(theirs, self._url, self._keys, configured(), self._modules),
            name="fencepost-child",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._counters.add(names.CHILD_STARTED)
        log(names.CHILD_STARTED, level=logging.DEBUG, pid=process.pid)
        return Child(process, ours)

    def _died(self, child: Child, error: Exception, job: ClaimedJob) -> Failed:
        """Return the failure of an attempt whose child ended without an answer."""
        child.process.join(1.0)
        child.pipe.close()
        code = child.process.exitcode
        self._counters.add(names.CHILD_DIED)
        about = {"attempt": job.attempt, "pid": child.process.pid, "exitcode": code}
        log_job(names.CHILD_DIED, job, level=logging.WARNING, **about)
        if code is not None and code < 0:
            return crashed(f"the child process was killed by signal {-code}")
        return crashed(f"the child process ended with code {code} ({type(error).__name__})")

    def kill(self, attempt: RunningAttempt) -> None:
        """Kill the child that runs an attempt: it has surely ended."""
        child = self._busy.get(attempt.job.lease.token)
        if child is not None:
            child.process.kill()

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def close(self) -> None:
        """End every child: idle ones may leave the app's lifespan, what still runs is killed."""
        for child in self._busy.values():
            child.process.kill()
        every = [*self._idle, *self._busy.values()]
        for child in every:
            child.pipe.close()  # an idle child ends when it sees this
        clock = SystemClock()
        end = clock.monotonic() + CHILD_END_MAX
        for child in every:
            child.process.join(max(0.0, end - clock.monotonic()))
            child.process.kill()
        self._idle.clear()


async def _send(pipe: Connection, data: bytes) -> None:
    """Send one message without blocking the loop."""
    if len(data) <= PIPE_ROOM:
        pipe.send_bytes(data)
    else:
        # A child that is still starting reads nothing; the rest of the message waits for it.
        await asyncio.get_running_loop().run_in_executor(None, pipe.send_bytes, data)


async def _answer(pipe: Connection) -> ChildMessage:
    return _answers.decode(await _receive(pipe))


async def _receive(pipe: Connection) -> bytes:
    """Wait for one message without blocking the loop."""
    await wait_for_message(pipe)
    # A message larger than the pipe's buffer arrives in parts; its rest is on its way.
    data: bytes = await asyncio.get_running_loop().run_in_executor(None, pipe.recv_bytes)
    return data


def main(
    pipe: Connection,
    url: str,
    keys: KeyRing | None = None,
    logs: tuple[str, str] | None = None,
    modules: Iterable[str] = (),
) -> None:
    """Serve requests until the worker closes the pipe or dies."""
    # The terminal sends Ctrl-C to the whole group; the worker decides what its children do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if logs is not None:
        configure(level=logs[0], style=logs[1])
    with asyncio.Runner() as runner:
        process = _ChildProcess(LazyStore(url, keys), pipe, runner)
        for module in modules:
            with suppress(Exception):  # the first job of one that cannot be imported says why
                _import(module, "__name__")
        pipe.send_bytes(_encoder.encode(Ready()))
        while True:
            try:
                request = _requests.decode(pipe.recv_bytes())
            except (EOFError, OSError):
                process.close()
                return
            pipe.send_bytes(_encoder.encode(process.run(request)))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _ChildState(AttemptState):
    """Also sends marks to the worker, which needs them before the handler has returned."""

    pipe: Connection | None = None

    def note_mark(self, mark: str) -> None:
        super().note_mark(mark)
        assert self.pipe is not None
        self.pipe.send_bytes(_encoder.encode(Marked(mark)))


def _names(classes: Iterable[type]) -> tuple[ImportedName, ...]:
    return tuple((each.__module__, each.__qualname__) for each in classes)


def _rule(request: ChildRequest) -> ExceptionRule:
    on = None if request.on is None else tuple(_import(*each) for each in request.on)
    return ExceptionRule(on, tuple(_import(*each) for each in request.never))


class _ChildProcess:
    """Runs handlers one after the other, coroutines on one event loop."""

    def __init__(self, store: Any, pipe: Connection, runner: asyncio.Runner) -> None:
        self._store = store
        self._pipe = pipe
        self._runner = runner
        self._lifespans: dict[int, tuple[Any, Any]] = {}
        """What the apps of this process have entered, and its value: most often one, or none."""

    def run(self, request: ChildRequest) -> Outcome:
        rule = None
        try:
            rule = _rule(request)
            return Succeeded(encode_result(self._call(request)))
        except SystemExit as error:
            return classify(RuntimeError(f"the handler called sys.exit({error.code!r})"), rule)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            return classify(error, rule)
        finally:
            current_job.set(None)
            sys.stdout.flush()

    def close(self) -> None:
        """Leave what was entered; the worker has ended, or needs this process no more."""
        for entered, _ in self._lifespans.values():
            self._runner.run(entered.__aexit__(None, None, None))

    def _call(self, request: ChildRequest) -> Any:
        current_job.set(request.job)
        function, tasks, hooks = _resolve(request.module, request.qualname)
        signature = Signature(function, Context)
        args, kwargs = read_arguments(signature, request.job.payload)
        job, started_at = request.job, SystemClock().monotonic()
        state = _ChildState(job, job.lease, started_at, request.dependencies, pipe=self._pipe)
        shared = self._shared(hooks)
        tags = request.trace_tags
        actions = ContextActions(
            state, self._store, tasks, hooks=hooks, shared=shared, trace_tags=tags
        )
        if signature.context_name is not None:
            kwargs[signature.context_name] = Context(actions)
        self._wait_for_go()
        result = call_hooked(
            hooks.chain(job.type, job.queue),
            Context(actions),
            partial(function, *args, **kwargs),
            is_async=inspect.iscoroutinefunction(function),
            in_thread=asyncio.to_thread,
        )
        if not asyncio.iscoroutine(result):
            return result
        # The runner has the context in which it was made, and would not know the job.
        return self._runner.run(result, context=contextvars.copy_context())

    def _wait_for_go(self) -> None:
        """Return when the start is on record; a worker that has died sends nothing any more."""
        try:
            self._pipe.send_bytes(_encoder.encode(Starting()))
            self._pipe.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    def _shared(self, hooks: Hooks) -> Any:
        if hooks.lifespan is None:
            return None
        if id(hooks) not in self._lifespans:
            entered = hooks.lifespan()
            self._lifespans[id(hooks)] = (entered, self._runner.run(entered.__aenter__()))
        return self._lifespans[id(hooks)][1]


def _resolve(module: str, qualname: str) -> tuple[Callable[..., Any], Mapping[str, Task], Hooks]:
    """Import the handler: its name leads to a task handle, which knows its function and app."""
    from fencepost.app import TaskHandle

    found = _import(module, qualname)
    if isinstance(found, TaskHandle):
        return found.__wrapped__, found._session.tasks, found._session.hooks
    return found, NO_TASKS, Hooks()


def _import(module: str, qualname: str) -> Any:
    name = "__mp_main__" if module == "__main__" else module
    return reduce(getattr, qualname.split("."), importlib.import_module(name))
