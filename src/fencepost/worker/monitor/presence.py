"""Says now and then that a worker is alive, for people to see; nothing depends on it (S2-16)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from fencepost.core.bounds import ANNOUNCE_INTERVAL
from fencepost.errors import StoreError
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.store import Store

UNHEARD_PAUSE = 1.0
"""Seconds until it is said again, if the store did not hear it."""


async def announce(store: Store, describe: Callable[[], WorkerInfo]) -> None:
    """Write what *describe* says to the store, forever."""
    while True:
        pause = UNHEARD_PAUSE
        with suppress(StoreError):
            await store.run_async(store.cluster.announce(describe()))
            pause = ANNOUNCE_INTERVAL
        await store.clock.sleep_async(pause)
