"""Records outcomes, in groups: whatever ended while one group was written forms the next.

A settlement whose outcome is unknown is sent again with the same token; the store then says what
had become of it. Until the store has answered, the job stays in flight and is heartbeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from fencepost.core.bounds import SETTLE_BYTES_MAX, SETTLE_MAX
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.outcome import Settlement
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.queue import Settled
from fencepost.store.interface.store import Store
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.run.store_calls import StoreBackoff, shielded


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
        self._pending: deque[Settlement] = deque()
        self._news = asyncio.Event()
        self._in_flight = 0
        self._counters = counters
        self._alone = 0
        """How many of the next settlements are to be written one by one."""

    @property
    def is_idle(self) -> bool:
        return not self._pending and not self._in_flight

    @property
    def is_behind(self) -> bool:
        """Whether something is to be written and nothing is being written."""
        return bool(self._pending) and not self._in_flight

    def add(self, settlement: Settlement) -> None:
        """Have a decision recorded soon."""
        if not self._pending:
            self._news.set()
        self._pending.append(settlement)

    async def start(self) -> None:
        """Write for as long as there is something to write, forever."""
        while True:
            await self._news.wait()
            await self.step()

    async def step(self) -> int:
        """Write one group; return how many settlements it had. They stay pending on an outage."""
        batch = self._next_group()
        if not self._pending:
            self._news.clear()
        if not batch:
            return 0
        self._in_flight = len(batch)
        try:
            # Shielded: a write that has started must not be torn by a worker that stops.
            replies = await shielded(self._store.run_async(self._store.queue.settle(batch)))
        except StoreError as error:
            self._pending.extendleft(reversed(batch))
            self._news.set()
            await self._store.clock.sleep_async(self._backoff.failed(error))
            return 0
        except Exception as error:  # noqa: BLE001 - or no job would ever be settled again
            self._set_aside(batch, error)
            return 0
        except asyncio.CancelledError:
            # By a loop that is being closed, the write and all; the shutdown repeats it.
            self._pending.extendleft(reversed(batch))
            raise
        finally:
            self._in_flight = 0
        self._backoff.failures = 0
        self._count(batch)
        self._note_runs()
        # Settled, settled before, or lost: in each case the job is no longer ours.
        self._inflight.drop_all(batch)
        if any(isinstance(reply, Settled) and reply.followed for reply in replies):
            self._slots.news.set()  # the store's notification would come too, but later
        self._slots.settled(batch)
        return len(batch)

    def drop(self, job: ClaimedJob) -> None:
        """Drop a job for which there is nothing to write."""
        self._inflight.drop(job.id, job.lease.token)
        self._note_runs()
        self._slots.settled(())

    def _next_group(self) -> list[Settlement]:
        """Take as many settlements as one write may have, by count and by bytes; one at least."""
        most = 1 if self._alone else SETTLE_MAX
        self._alone = max(self._alone - 1, 0)
        batch: list[Settlement] = []
        room = SETTLE_BYTES_MAX
        while self._pending and len(batch) < most:
            result = self._pending[0].decision.result
            if result is not None:
                room -= len(result.data)
                if room < 0 and batch:
                    break
            batch.append(self._pending.popleft())
        return batch

    def _set_aside(self, batch: list[Settlement], error: Exception) -> None:
        """Find the settlement that the store cannot take, and give it up: its lease runs out."""
        if len(batch) > 1:
            self._pending.extendleft(reversed(batch))
            self._alone = len(batch)
            self._news.set()
            return
        self._inflight.drop_all(batch)
        self._slots.settled(())  # a claim that waits for room has it
        self._counters.add(names.SETTLE_FAILED)
        log(names.SETTLE_FAILED, level=logging.ERROR, id=batch[0].job_id, error=repr(error))

    def _note_runs(self) -> None:
        """Pass on how long attempts took: by the batch, since each by itself would cost more."""
        ran, self.ran = self.ran, defaultdict(list)
        for lane, seconds in ran.items():
            self._counters.runs.note(lane, seconds)

    def _count(self, batch: Sequence[Settlement]) -> None:
        ended = Counter([settlement.decision.outcome for settlement in batch])
        for outcome, count in ended.items():
            self._counters.add(names.ATTEMPT_ENDED, count, outcome=outcome)
