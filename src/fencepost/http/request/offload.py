"""Work that would hold up everybody's requests, done beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from fencepost.core.bounds import HTTP_BODY_ASIDE

T = TypeVar("T")


class Aside:
    """One thread for what takes long: large bodies, one after the other.

    With more of them, threads would take the interpreter from the event loop more often than it
    gets a turn, and each would have a large body decoded in memory.
    """

    def __init__(self) -> None:
        # Its thread starts with the first large body, and ends when nobody has this any more.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fencepost-bodies")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what *work* makes of a body of *size* bytes: at once, if that is small."""
        if size <= HTTP_BODY_ASIDE:
            return work()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, copy_context().run, work)
