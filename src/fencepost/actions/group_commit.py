"""Group commit of awaited submissions: whatever arrives while one batch is stored forms the next.

The same durability as one by one, at many times the rate; a lone caller waits for nobody.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque

from fencepost.core.bounds import GROUP_MAX, SUBMISSION_TIMEOUT_DEFAULT
from fencepost.core.job.job import NewJob
from fencepost.errors import InvalidJobError, SubmissionTimeoutError
from fencepost.store.interface.replies import EnqueueReply
from fencepost.store.interface.store import Store

Waiting = tuple[NewJob, "asyncio.Future[EnqueueReply]"]


class Submitter:
    """Gathers single submissions, loop by loop."""

    def __init__(self, store: Store, timeout: float = SUBMISSION_TIMEOUT_DEFAULT) -> None:
        self.store = store
        self._timeout = timeout
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Gatherer] = (
            weakref.WeakKeyDictionary()
        )

    def submit(self, job: NewJob) -> asyncio.Future[EnqueueReply]:
        """Return a future that resolves when *job* is stored, or when it took too long.

        To cancel it only means to listen no more: a commit that others share goes on.
        """
        loop = asyncio.get_running_loop()
        gatherer = self._loops.get(loop)
        if gatherer is None:
            gatherer = self._loops[loop] = _Gatherer(self.store, self._timeout)
        return gatherer.submit(job, loop)


class _Gatherer:
    def __init__(self, store: Store, timeout: float) -> None:
        self._store = store
        self._timeout = timeout
        self._waiting: deque[Waiting] = deque()
        self._flushing: asyncio.Task[None] | None = None
        self._unanswered: deque[tuple[float, asyncio.Future[EnqueueReply]]] = deque()
        """By when each is to be answered. One timer for all: one each would cost as much as all
        else here."""
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, job: NewJob, loop: asyncio.AbstractEventLoop) -> asyncio.Future[EnqueueReply]:
        future: asyncio.Future[EnqueueReply] = loop.create_future()
        self._waiting.append((job, future))
        self._unanswered.append((loop.time() + self._timeout, future))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout, self._expire, loop)
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), GROUP_MAX)
                await self._store_batch([self._waiting.popleft() for _ in range(count)])
                self._forget_answered()
        finally:
            self._flushing = None

    async def _store_batch(self, batch: list[Waiting]) -> None:
        try:
            replies = await self._store.run_async(
                self._store.queue.enqueue([job for job, _ in batch])
            )
        except InvalidJobError as error:
            # Nothing was stored. The fault of one job is not that of the strangers beside it.
            if len(batch) == 1:
                _fail(batch[0][1], error)
            else:
                middle = len(batch) // 2
                await self._store_batch(batch[:middle])
                await self._store_batch(batch[middle:])
            return
        except BaseException as error:  # noqa: BLE001 - every waiting caller must be told
            for _, future in batch:
                _fail(future, error)
            return
        for (_, future), reply in zip(batch, replies, strict=True):
            if not future.done():
                future.set_result(reply)

    def _forget_answered(self) -> None:
        while self._unanswered and self._unanswered[0][1].done():
            self._unanswered.popleft()

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell those who have waited too long, and wait for the next."""
        self._timer = None
        self._forget_answered()
        while self._unanswered and self._unanswered[0][0] <= loop.time():
            _, future = self._unanswered.popleft()
            _fail(future, _too_slow(self._timeout))
        if self._unanswered:
            self._timer = loop.call_at(self._unanswered[0][0], self._expire, loop)


def _fail(future: asyncio.Future[EnqueueReply], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # a caller that gave up is not told again by the loop


def _too_slow(timeout: float) -> SubmissionTimeoutError:
    return SubmissionTimeoutError(
        f"the store did not acknowledge the submission within {timeout:g} s; it may have "
        f"been stored: submit again with the same idempotency key to be sure"
    )
