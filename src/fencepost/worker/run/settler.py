"""Records outcomes, in groups: whatever ended while one group was written forms the next.

A settlement whose outcome is unknown is sent again with the same token; the store then says what
had become of it. Until the store has answered, the job stays in hand and is heartbeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence

from fencepost.core.bounds import SETTLE_BYTES_MAX, SETTLE_MAX
from fencepost.core.job.outcome import Settlement
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.queue import Settled
from fencepost.store.interface.store import Store
from fencepost.worker.run.inflight import Hand
from fencepost.worker.run.shield import shielded
from fencepost.worker.run.store_backoff import Patience


class Settler:
    """Gathers settlements and writes them."""

    def __init__(
        self,
        store: Store,
        hand: Hand,
        counters: Counters,
        on_written: Callable[[Sequence[Settlement]], None] = lambda _: None,
        on_followed: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._hand = hand
        self._on_written = on_written
        self._on_followed = on_followed
        self._patience = Patience("settle", counters, store.clock.rng)
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
            await self._store.clock.sleep_async(self._patience.failed(error))
            return 0
        except Exception as error:  # noqa: BLE001 - or no job would ever be settled again
            self._set_aside(batch, error)
            return 0
        except asyncio.CancelledError:
            # By a loop that is being closed, the write and all; whoever ends us repeats it.
            self._pending.extendleft(reversed(batch))
            raise
        finally:
            self._in_flight = 0
        self._patience.succeeded()
        self._count(batch)
        # Settled, settled before, or lost: in each case the job is no longer ours.
        self._hand.drop_all(batch)
        self._on_written(batch)
        if any(isinstance(reply, Settled) and reply.followed for reply in replies):
            self._on_followed()
        return len(batch)

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
        self._hand.drop_all(batch)
        self._on_written(())  # whoever waits for room has it
        self._counters.add(names.SETTLE_FAILED)
        log(names.SETTLE_FAILED, level=logging.ERROR, id=batch[0].job_id, error=repr(error))

    def _count(self, batch: Sequence[Settlement]) -> None:
        ended = Counter([settlement.decision.outcome for settlement in batch])
        for outcome, count in ended.items():
            self._counters.add(names.ATTEMPT_ENDED, count, outcome=outcome)
