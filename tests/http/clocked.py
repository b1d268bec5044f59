"""An app whose store is in memory and goes by the clock of the test, for what depends on time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencepost import App
from fencepost.clock import Clock
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock


@pytest.fixture
def app(clock: FakeClock) -> App:
    return App(store=MemoryStore(clock=clock))


class WatchedStore(MemoryStore):
    """A store that counts the awaited calls of one operation, and can hold them up or fail."""

    def __init__(self, watched: Callable[..., Any], clock: Clock) -> None:
        super().__init__(clock=clock)
        self._watched = watched
        self.calls = 0
        self.trouble: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.way_back: asyncio.Event | None = None
        """Holds up what was read, when others may write already."""

    async def run_async(self, operation: Operation[Any]) -> Any:
        if operation.is_a(self._watched):
            self.calls += 1
            if self.gate is not None:
                await self.gate.wait()
            if self.trouble is not None:
                raise self.trouble
            found = await super().run_async(operation)
            if self.way_back is not None:
                await self.way_back.wait()
            return found
        return await super().run_async(operation)
