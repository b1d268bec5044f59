"""Group commit of awaited submissions: those that arrive while one batch is stored form the next.

The same durability as one by one, at many times the rate; a lone caller does not wait for others.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque

from fencepost.core.bounds import GROUP_MAX, SUBMISSION_TIMEOUT_DEFAULT
from fencepost.core.job.job import NewJob
from fencepost.errors import InvalidJobError, SubmissionTimeoutError
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.interface.store import Store

Waiting = tuple[NewJob, "asyncio.Future[EnqueueReply]"]


class Submitter:
    """Collects single submissions: for each event loop those that are due now, and the others.

    The store may refuse a job that falls due too late by its clock. Its group is then stored in
    parts, which jobs that are due now should not wait for.
    """

    def __init__(self, store: Store, timeout: float = SUBMISSION_TIMEOUT_DEFAULT) -> None:
        self.store = store
        self._timeout = timeout
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Group]] = (
            weakref.WeakKeyDictionary()
        )

    def submit(self, job: NewJob) -> asyncio.Future[EnqueueReply]:
        """Return a future that resolves when *job* is stored, or when it took too long.

        Cancelling the future does not cancel the submission: others share its commit.
        """
        loop = asyncio.get_running_loop()
        groups = self._loops.get(loop)
        if groups is None:
            groups = {late: _Group(self.store, self._timeout) for late in (False, True)}
            self._loops[loop] = groups
        return groups[job.run_at is not None].submit(job, loop)


class _Group:
    def __init__(self, store: Store, timeout: float) -> None:
        self._store = store
        self._timeout = timeout
        self._waiting: deque[Waiting] = deque()
        self._flushing: asyncio.Task[None] | None = None
        self._unanswered: deque[tuple[float, asyncio.Future[EnqueueReply]]] = deque()
        """With the deadline of each. One timer serves all: one each would double the cost."""
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
            # Nothing was stored. One bad job must not fail those of other callers in its batch.
            if len(batch) == 1:
                _fail(batch[0][1], error)
            else:
                middle = len(batch) // 2
                await self._store_batch(batch[:middle])
                await self._store_batch(batch[middle:])
            return
        except BaseException as error:  # noqa: BLE001 - every waiting caller must get it
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
        """Fail the submissions that have waited too long, and set the timer for the next."""
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
        future.exception()  # retrieved, so that the loop logs nothing if the caller gave up


def _too_slow(timeout: float) -> SubmissionTimeoutError:
    return SubmissionTimeoutError(
        f"the store did not acknowledge the submission within {timeout:g} s; it may have "
        f"been stored: submit again with the same idempotency key to be sure"
    )
