"""Group commit of awaited submissions: whatever arrives while one batch is stored forms the next.

The same durability as one by one, at many times the rate; a lone caller waits for nobody.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque

from fencepost.core.job import NewJob
from fencepost.core.limits import GROUP_MAX
from fencepost.store.protocol import Store
from fencepost.store.replies import EnqueueReply

Waiting = tuple[NewJob, "asyncio.Future[EnqueueReply]"]


class Submitter:
    """Gathers single submissions, loop by loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Gatherer] = (
            weakref.WeakKeyDictionary()
        )

    def submit(self, job: NewJob) -> asyncio.Future[EnqueueReply]:
        """Return a future that resolves when *job* is stored."""
        loop = asyncio.get_running_loop()
        gatherer = self._loops.get(loop)
        if gatherer is None:
            gatherer = self._loops[loop] = _Gatherer(self.store)
        return gatherer.submit(job, loop)


class _Gatherer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[Waiting] = deque()
        self._flushing: asyncio.Task[None] | None = None

    def submit(self, job: NewJob, loop: asyncio.AbstractEventLoop) -> asyncio.Future[EnqueueReply]:
        future: asyncio.Future[EnqueueReply] = loop.create_future()
        self._waiting.append((job, future))
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), GROUP_MAX)
                await self._store_batch([self._waiting.popleft() for _ in range(count)])
        finally:
            self._flushing = None

    async def _store_batch(self, batch: list[Waiting]) -> None:
        try:
            replies = await self._store.run_async(self._store.enqueue([job for job, _ in batch]))
        except BaseException as error:  # noqa: BLE001 - every waiting caller must be told
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # a caller that gave up is not told again by the loop
            return
        for (_, future), reply in zip(batch, replies, strict=True):
            if not future.done():
                future.set_result(reply)
