"""The product's worker in a simulated process: only the heart's thread is a simulated one."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

from fencepost.generators import drive_async
from fencepost.worker.run.heartbeater import BEATS_PER_TTL, STOP_WAIT, Heartbeater
from fencepost.worker.worker import Worker
from lab.simulation.loop import SimulatedLoop


class SimulatedEvent:
    """A ``threading.Event`` on which one simulated thread can wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait_async(self, timeout: float) -> None:
        if self._is_set:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._waiting,), timeout=timeout)
        self._waiting = None


class SimulatedHeartbeater(Heartbeater):
    """Beats in a thread of the simulated process, by the same script."""

    _rest: SimulatedEvent

    def start(self) -> None:
        self._rest = SimulatedEvent()
        self._wake = cast(threading.Event, self._rest)
        process = cast(SimulatedLoop, asyncio.get_running_loop()).process
        assert process is not None
        self._beating = process.add_thread().create_task(self._beat_on_async())

    async def _beat_on_async(self) -> None:
        while not self._is_stopping:
            pause = await self.step_async()
            self.shortest_ttl = pause * BEATS_PER_TTL
            await self._rest.wait_async(pause)
            self._rest.clear()

    async def step_async(self) -> float:
        """Make the pass that ``step`` makes, awaited."""
        return await drive_async(self.beating(), self._store.run_async)

    async def stop_async(self) -> None:
        self._is_stopping = True
        self._rest.set()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(_: object) -> None:
            if not ended.done():
                ended.set_result(None)

        self._beating.add_done_callback(tell)
        await asyncio.wait((ended,), timeout=STOP_WAIT)


class SimulatedWorker(Worker):
    """The product's worker, with that heart."""

    _heartbeater_class = SimulatedHeartbeater
