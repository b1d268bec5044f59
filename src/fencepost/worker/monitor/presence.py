"""Says now and then that a worker is alive, for people to see; nothing depends on it (S2-16)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

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


def describe(
    worker: str,
    *,
    queues: dict[str, int] | None,
    types: Iterable[str],
    concurrency: int,
    started_at: datetime,
    running: int,
) -> WorkerInfo:
    """Return what is announced of a worker in this process."""
    return WorkerInfo(
        id=worker,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=queues,
        types=tuple(sorted(types)),
        concurrency=concurrency,
        started_at=started_at,
        running=running,
    )
