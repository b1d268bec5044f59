"""Records outcomes in groups: what ended while one group was written forms the next.

A settlement whose outcome is unknown is repeated with the same token; the store then says whether
it had been recorded. Until the store has answered, the job stays in flight and is heartbeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fencepost.core.bounds import SETTLE_BYTES_MAX, SETTLE_MAX
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.outcome import Settlement
from fencepost.errors import StoreError
from fencepost.generators import begun
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.queue import Settled, SettleReply
from fencepost.store.interface.store import Store
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots

T = TypeVar("T")


class Settler:
    """A queue of settlements, which it writes in groups."""

    def __init__(
        self, store: Store, inflight: InFlight, counters: Counters, slots: WorkerSlots
    ) -> None:
        self.ran: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        """How long attempts took, by type and queue, since the last group."""
        self._store = store
        self._inflight = inflight
        self._slots = slots
        self._backoff = StoreBackoff("settle", counters, store.clock.rng)
        self.pending: deque[Settlement] = deque()
        """To be written."""
        self._news = asyncio.Event()
        self._written: list[Settlement] = []
        """Those that are being written."""
        self._reply: asyncio.Future[list[SettleReply]] | None = None
        """The store's reply to these, once it comes."""
        self._counters = counters
        self._alone = 0
        """How many of the next settlements to write one by one."""

    @property
    def is_idle(self) -> bool:
        return not self.pending and self._reply is None

    @property
    def is_writing(self) -> bool:
        return self._reply is not None

    def add(self, settlement: Settlement) -> None:
        """Write a settlement soon."""
        if not self.pending:
            self._news.set()
        self.pending.append(settlement)

    def post(self, *, blocks: bool = True) -> None:
        """Have the store begin to write what has ended, unless it is writing.

        If the loop is about to block, a store that hands over does so before this returns.
        """
        if self._reply is None and (batch := self._next_group()):
            self._written = batch
            writing = self._write(batch)
            # Shielded: a worker that stops must not cut off a write that has started.
            self._reply = shielded(begun(writing) if blocks and self._store.hands_over else writing)

    async def _write(self, batch: list[Settlement]) -> list[SettleReply]:
        return await self._store.run_async(self._store.queue.settle(batch))

    async def start(self) -> None:
        """Write settlements, forever."""
        try:
            while True:
                await self._news.wait()
                await self.step()
        finally:
            self._put_back()

    async def step(self) -> int:
        """Write one group; return how many settlements it had. They stay pending on an outage."""
        self.post(blocks=False)
        if not self.pending:
            self._news.clear()
        if self._reply is None:
            return 0
        batch = self._written
        try:
            replies = await self._reply
        except StoreError as error:
            self._put_back()
            self._news.set()
            await self._store.clock.sleep_async(self._backoff.failed(error))
            return 0
        except Exception as error:  # noqa: BLE001 - or no job would ever be settled again
            self._set_aside(batch, error)
            return 0
        except asyncio.CancelledError:
            # A closing loop has cancelled the write as well; the shutdown repeats it.
            self._put_back()
            raise
        self._written, self._reply = [], None
        self._backoff.succeeded()
        self._count(batch)
        self._note_runs()
        # Settled, settled before, or lost: the job is no longer held.
        self._inflight.drop_all(batch)
        if any(isinstance(reply, Settled) and reply.followed for reply in replies):
            self._slots.news.set()  # the store's notification would come too, but later
        self._slots.settled(batch)
        return len(batch)

    def drop(self, job: ClaimedJob) -> None:
        """Drop a job for which there is nothing to write."""
        self._inflight.leave(job.id, job.lease.token)
        self._note_runs()
        self._slots.settled(())

    def _next_group(self) -> list[Settlement]:
        """Take as many settlements as one write may have, by count and by bytes; one at least."""
        most = 1 if self._alone else SETTLE_MAX
        self._alone = max(self._alone - 1, 0)
        batch: list[Settlement] = []
        room = SETTLE_BYTES_MAX
        while self.pending and len(batch) < most:
            result = self.pending[0].decision.result
            if result is not None:
                room -= len(result.data)
                if room < 0 and batch:
                    break
            batch.append(self.pending.popleft())
        return batch

    def _put_back(self) -> None:
        """Write again what was being written: whether it is recorded is not known."""
        self.pending.extendleft(reversed(self._written))
        self._written, self._reply = [], None

    def _set_aside(self, batch: list[Settlement], error: Exception) -> None:
        """Find the settlement that the store does not accept, and drop it: its lease expires."""
        if len(batch) > 1:
            self._put_back()
            self._alone = len(batch)
            self._news.set()
            return
        self._written, self._reply = [], None
        self._inflight.leave(batch[0].job_id, batch[0].token)
        self._slots.settled(())  # a claim may wait for this
        self._counters.add(names.SETTLE_FAILED)
        log(names.SETTLE_FAILED, level=logging.ERROR, id=batch[0].job_id, error=repr(error))

    def _note_runs(self) -> None:
        """Note how long attempts took, in a batch: one by one would cost more."""
        ran, self.ran = self.ran, defaultdict(list)
        for lane, seconds in ran.items():
            self._counters.runs.note(lane, seconds)

    def _count(self, batch: Sequence[Settlement]) -> None:
        ended = Counter([settlement.decision.outcome for settlement in batch])
        for outcome, count in ended.items():
            self._counters.add(names.ATTEMPT_ENDED, count, outcome=outcome)


def shielded(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Start *work*, and return a future of it that can be cancelled while *work* goes on."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_retrieve)
    return asyncio.shield(task)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Read how it ended: asyncio logs an error that nothing has read.

    ``asyncio.shield`` does not read it once its outer future is cancelled: a worker that was
    stopped while the store was away left a traceback in the log.
    """
    if not task.cancelled():
        task.exception()
