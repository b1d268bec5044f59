"""The other end of ``children``: a process that runs one handler at a time for its worker."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from fencepost.app import TaskHandle
from fencepost.clock import SystemClock
from fencepost.core.crypto.keyring import KeyRing
from fencepost.core.job.failure import classify
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Outcome, Succeeded
from fencepost.core.job.task import Task
from fencepost.core.values.payload import encode_result
from fencepost.core.values.signature import Signature
from fencepost.core.values.skew import read_arguments
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.worker.process.children import ChildRequest, Marked
from fencepost.worker.run.context import NO_TASKS, Context

_requests = msgspec.msgpack.Decoder(ChildRequest)
_answers = msgspec.msgpack.Encoder()


def main(pipe: Connection, url: str, keys: KeyRing | None = None) -> None:
    """Serve requests until the worker closes the pipe or dies."""
    # The terminal sends Ctrl-C to the whole group; what becomes of us is the worker's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    store = _LazyStore(url, keys)
    while True:
        try:
            request = _requests.decode(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        pipe.send_bytes(_answers.encode(_run(request, store, pipe)))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _LazyStore:
    """Opens the store when a handler first writes to it; most never do."""

    def __init__(self, url: str, keys: KeyRing | None) -> None:
        self._url = url
        self._keys = keys
        self._store: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            self._store = open_store(self._url, keys=self._keys)
        return getattr(self._store, name)


class _ChildContext(Context):
    """Tells the worker what it must know before the handler has returned, or if it never does."""

    __slots__ = ("_pipe",)

    def __init__(
        self,
        job: ClaimedJob,
        store: Any,
        pipe: Connection,
        dependencies: Sequence[Dependency],
        tasks: Mapping[str, Task],
    ) -> None:
        super().__init__(job, store, SystemClock().monotonic(), dependencies, tasks)
        self._pipe = pipe

    def note_mark(self, mark: str) -> None:
        super().note_mark(mark)
        self._pipe.send_bytes(_answers.encode(Marked(mark)))


def _run(request: ChildRequest, store: Any, pipe: Connection) -> Outcome:
    try:
        return Succeeded(encode_result(_call(request, store, pipe)))
    except SystemExit as error:
        return classify(RuntimeError(f"the handler called sys.exit({error.code!r})"))
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        return classify(error)
    finally:
        sys.stdout.flush()


def _call(request: ChildRequest, store: Any, pipe: Connection) -> Any:
    function, tasks = _resolve(request.module, request.qualname)
    signature = Signature(function, Context)
    args, kwargs = read_arguments(signature, request.job.payload)
    if signature.context_name is not None:
        context = _ChildContext(request.job, store, pipe, request.dependencies, tasks)
        kwargs[signature.context_name] = context
    result = function(*args, **kwargs)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def _resolve(module: str, qualname: str) -> tuple[Callable[..., Any], Mapping[str, Task]]:
    """Import the handler; the name holds a task handle, which knows its function and its app's."""
    name = "__mp_main__" if module == "__main__" else module
    found: Any = reduce(getattr, qualname.split("."), importlib.import_module(name))
    if isinstance(found, TaskHandle):
        return found.__wrapped__, found._session.tasks
    return found, NO_TASKS
