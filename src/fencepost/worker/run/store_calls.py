"""How a worker calls its store: what must not be torn, and when to try again after an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from fencepost.core.bounds import STORE_RETRY_DELAY_MAX
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log

FIRST_DELAY = 0.05

T = TypeVar("T")


class StoreBackoff:
    """Jittered delays that double up to a bound, and start again after a success."""

    def __init__(self, what: str, counters: Counters, rng: Random) -> None:
        self._what = what
        self._counters = counters
        self._rng = rng
        self.failures = 0
        """In a row; a call that succeeds sets it to 0."""

    def failed(self, error: BaseException) -> float:
        """Note a failure and return how long to wait before trying again."""
        self.failures += 1
        self._counters.add(names.STORE_UNAVAILABLE, during=self._what)
        level = logging.WARNING if self.failures in (1, 10, 100) else logging.DEBUG
        log(
            names.STORE_UNAVAILABLE,
            level=level,
            during=self._what,
            failures=self.failures,
            error=str(error),
        )
        longest = min(FIRST_DELAY * 2 ** min(self.failures, 10), STORE_RETRY_DELAY_MAX)
        return self._rng.uniform(longest / 2, longest)


def shielded(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Start *work*, and return a future of it that can be cancelled while *work* goes on."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_retrieve)
    return asyncio.shield(task)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Read how it ended, because asyncio logs an error that nobody has read.

    Once its outer future is cancelled, ``asyncio.shield`` no longer does: a worker that was stopped
    while the store was away left a traceback in the log.
    """
    if not task.cancelled():
        task.exception()
