"""Keeps the slots filled: claims when some are free, and hands the jobs to the executor."""

from __future__ import annotations

import asyncio

from fencepost.core.bounds import POLL_INTERVAL
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.store import Store
from fencepost.worker.run.claimer import Claimer
from fencepost.worker.run.executor import HandlerExecutor
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.settler import Settler
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.startup import declare_rates, recover_at_start

SETTLER_TURNS = 4
"""Turns of the loop in which the settler takes up what has ended, and posts it to the store."""


class Fetcher:
    """Decides when to claim, and how many jobs."""

    def __init__(
        self,
        store: Store,
        claimer: Claimer,
        executor: HandlerExecutor,
        *,
        inflight: InFlight,
        slots: WorkerSlots,
        settler: Settler,
        heartbeater: Heartbeater,
        may_block: bool,
    ) -> None:
        self._store = store
        self._claimer = claimer
        self._executor = executor
        self._inflight = inflight
        self._slots = slots
        self._settler = settler
        self._counters = executor.counters
        self._heartbeater = heartbeater
        self._may_block = may_block

    async def run(self) -> None:
        """Claim and start until the worker stops or, until idle, until nothing is claimable."""
        slots = self._slots
        await recover_at_start(self._store, is_stopping=self._is_stopping)
        await declare_rates(
            self._store, self._executor.tasks, self._counters, is_stopping=self._is_stopping
        )
        while not self._executor.shutdown.is_stopping:
            slots.news.clear()
            await slots.gather()
            limit = slots.wanted()
            # Or what is on its way back would be passed over by what stands behind it in line.
            if limit <= 0 or slots.is_giving_back():
                await slots.news.wait()
                continue
            # With every slot free, on a loop of our own, there is no handler that a blocked loop
            # could hold up. It saves two hops between threads: short jobs drain half as fast again.
            blocks = self._may_block and not slots.taken
            if blocks:
                await self._see_settled()
            # What is settled while we ask may let others go, which the answer does not contain.
            had_nothing = not self._inflight
            fetched = await self._claimer.claim(limit, blocks=blocks)
            if fetched is None:
                continue
            claim, taken = fetched
            for lease_ttl in {job.lease_ttl for job in claim.jobs}:
                self._heartbeater.expect(lease_ttl)
            if taken:
                self._executor.take(taken)
                # Short handlers end in this turn of the loop, and all their slots are filled at
                # once: a claim costs nearly the same for one job as for twenty.
                await _turn()
            elif had_nothing and self._is_done():
                return
            else:
                await slots.rest(self._claimer.pause_after(claim))

    async def _see_settled(self) -> None:
        """Let what has ended be on its way to the store before the loop is blocked.

        A claim may hang, and leases run out meanwhile; a write that was posted goes on by itself.
        """
        if self._settler.is_behind:
            for _ in range(SETTLER_TURNS):
                await _turn()

    def _is_stopping(self) -> bool:
        return self._executor.shutdown.is_stopping

    def _is_done(self) -> bool:
        slots = self._slots
        return (
            slots.until_idle and not slots.running and self._settler.is_idle and not self._inflight
        )

    async def listen(self) -> None:
        """Claim again when the store notifies of ready jobs, forever."""
        listener = self._store.listen(Topic.READY)
        try:
            while True:
                if await listener.wait_async(POLL_INTERVAL):
                    self._slots.news.set()
        finally:
            listener.close()


async def _turn() -> None:
    """Let the event loop turn once."""
    await asyncio.sleep(0)  # noqa: TID251 - waits for nothing
