"""Threads for ``def`` handlers: daemons, so that one that hangs cannot keep the process alive."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

from fencepost.store.interruption import Interruptible

SWITCH_INTERVAL = 0.0005
"""Seconds, a tenth of Python's default. With eight `def` handlers that compute, the loop would wait
for some 40 ms each time, and jobs would begin too late."""

Work = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Threads:
    """Runs calls in threads, as many as there are calls at once; idle threads are reused."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = 0
        self._count = 0
        self._mutex = threading.Lock()

    def call(
        self, function: Callable[[], Any], stop: Interruptible | None = None
    ) -> asyncio.Future[Any]:
        """Return a future of *function*'s result, computed in a thread with a fresh context.

        *stop* can stop it.
        """
        if stop is not None:
            function = partial(stop.run, function)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._mutex:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                name = f"fencepost-handler-{self._count}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._work.put((function, future, loop))
        return future

    def close(self) -> None:
        """End idle threads; busy ones end with their work."""
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            function, future, loop = work
            result: Any = None
            error: BaseException | None = None
            try:
                result = contextvars.Context().run(function)
            except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
                error = raised
            with self._mutex:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_resolve, future, result, error)
            except RuntimeError:
                return  # the worker has gone
            del work, function, future, result, error


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, (StopIteration, asyncio.CancelledError)):
        future.set_exception(RuntimeError(f"the handler raised {error!r}"))
    else:
        future.set_exception(error)


@contextmanager
def short_turns() -> Iterator[None]:
    """Let Python switch threads more often, while the process serves only a worker."""
    was = sys.getswitchinterval()
    sys.setswitchinterval(min(was, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(was)
