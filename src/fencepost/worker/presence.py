"""Says now and then that a worker is alive, for people to see; nothing depends on it (S2-16)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from fencepost.core.limits import ANNOUNCE_INTERVAL
from fencepost.errors import StoreError
from fencepost.store.protocol import Store
from fencepost.store.requests import WorkerInfo


async def announce(store: Store, describe: Callable[[], WorkerInfo]) -> None:
    """Write what *describe* says to the store, forever."""
    while True:
        with suppress(StoreError):
            await store.run_async(store.announce(describe()))
        await store.clock.sleep_async(ANNOUNCE_INTERVAL)
