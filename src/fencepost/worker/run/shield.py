"""Awaiting what must not be torn: it goes on when whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def shielded(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Start *work* and return a future of it that can be cancelled without it."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_hear)
    return asyncio.shield(task)


def _hear(task: asyncio.Task[Any]) -> None:
    """Ask how it ended, because asyncio logs an error for which nobody has asked.

    Once its outer future is cancelled, ``asyncio.shield`` no longer does: a worker that was stopped
    while the store was away left a traceback in the log.
    """
    if not task.cancelled():
        task.exception()
