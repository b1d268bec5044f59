"""A store that neither answers nor refuses does not keep a worker that is to stop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar, cast

import pytest
from tests.worker.support import LONG

from fencepost import App
from fencepost.observe.counters import Counters
from fencepost.store.interface.facet import Method
from fencepost.store.interface.queue import ClaimRequest, QueueFacet
from fencepost.store.interface.records.cluster import ClusterFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock
from fencepost.worker import worker
from fencepost.worker.run import heartbeater
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.inflight import InFlight

T = TypeVar("T")


class HangingStore:
    """Says nothing to some operations until it is let go."""

    def __init__(self, store: Store, *methods: Method) -> None:
        self.inner = store
        self.methods = methods
        self.is_asked = threading.Event()
        self.is_let_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, operation: Operation[T]) -> T:
        if operation.is_a(*self.methods):
            self.is_asked.set()
            self.is_let_go.wait(LONG)
        return self.inner.run(operation)

    async def run_async(self, operation: Operation[T]) -> T:
        if operation.is_a(*self.methods):
            self.is_asked.set()
            await asyncio.sleep(LONG)
        return await self.inner.run_async(operation)


def test_a_heart_that_waits_for_the_store_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by the simulation: a stop took as long as a swallowed heartbeat, a minute."""
    monkeypatch.setattr(heartbeater, "STOP_WAIT", 0.05)
    clock = FakeClock()
    inner = MemoryStore(clock=clock)
    store = HangingStore(inner, QueueFacet.heartbeat)
    app = App("memory://", store=inner)

    @app.task
    async def anything() -> None: ...

    anything.submit()
    hand = InFlight()
    claim = inner.run(inner.queue.claim(ClaimRequest(worker="w", limit=1, lease_ttl=30.0)))
    hand.take(claim.jobs, asked_at=0.0, answered_at=0.0)
    clock.advance(15)
    heart = Heartbeater(cast(Store, store), hand, Counters(), lambda held, reason: None)
    heart.start()
    assert store.is_asked.wait(LONG)
    heart.stop()
    assert heart._thread is not None
    assert heart._thread.is_alive(), "the stop came back before the pass did"
    store.is_let_go.set()
    heart._thread.join(LONG)
    assert not heart._thread.is_alive(), "and the pass was the last one"


async def test_a_worker_takes_leave_of_a_store_that_hangs_only_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "FAREWELL", 0.05)
    store = HangingStore(MemoryStore(clock=App("memory://").session.clock), ClusterFacet.retire)
    app = App("memory://", store=cast(Store, store))
    await asyncio.wait_for(app.worker().aio.run(until_idle=True), LONG / 2)
    assert store.is_asked.is_set()
