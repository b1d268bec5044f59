"""The process that runs isolated handlers, and its messages with the worker.

A child serves one request after the other, on one event loop, until the worker closes the pipe. If
the worker dies, it exits.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial, reduce
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from fencepost.clock import SystemClock
from fencepost.core.encryption import KeyRing
from fencepost.core.hooks import Hooks
from fencepost.core.job.failure import classify
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Failed, Outcome, Snoozed, Succeeded, Unreadable
from fencepost.core.job.retryable import ExceptionRule
from fencepost.core.job.task import Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.signature import Signature, read_arguments
from fencepost.observe.log import configure, current_job
from fencepost.store.open import LazyStore
from fencepost.worker.run.context import NO_TASKS, AttemptState, Context, ContextActions
from fencepost.worker.run.hooks import call_hooked

ReturnedOutcome = Succeeded | Failed | Snoozed | Unreadable

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


encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(ChildRequest).decode
ChildMessage = ReturnedOutcome | Marked | Ready | Starting
_messages: msgspec.msgpack.Decoder[ChildMessage] = msgspec.msgpack.Decoder(ChildMessage)
decode_message = _messages.decode
GO = b"go"
"""The worker's answer to Starting: the start is on record."""


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
        pipe.send_bytes(encode(Ready()))
        while True:
            try:
                request = _decode_request(pipe.recv_bytes())
            except (EOFError, OSError):
                process.close()
                return
            pipe.send_bytes(encode(process.run(request)))


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
        self.pipe.send_bytes(encode(Marked(mark)))


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
        """The lifespans that this process has entered, with their values: usually one or none."""

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
        """Leave the lifespans: the worker has ended, or does not need this process any more."""
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
            self._pipe.send_bytes(encode(Starting()))
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
