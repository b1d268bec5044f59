"""What a worker does before its first claim: take back what expired, and declare its rates.

A rate lives in the store, so that every claimer obeys it, also one that does not know the task. A
worker declares all of its types, those without a rate too: what an earlier version of the app had
declared must not outlive it. The worker that starts last decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from fencepost.core.bounds import RECOVER_BATCH
from fencepost.core.job.task import Task
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.store import Store
from fencepost.worker.run.store_calls import StoreBackoff


async def recover_at_start(store: Store, *, is_stopping: Callable[[], bool]) -> None:
    """Recover every job whose lease ran out while no worker looked (S4-19)."""
    with suppress(StoreError):
        while await store.run_async(store.upkeep.recover(RECOVER_BATCH)):
            if is_stopping():
                return
            await asyncio.shield(store.clock.sleep_async(0))


async def declare_rates(
    store: Store,
    tasks: Mapping[str, Task],
    counters: Counters,
    *,
    is_stopping: Callable[[], bool],
) -> None:
    """Store the rates of *tasks*, however long the store is away: claims come after that."""
    backoff = StoreBackoff("set_rates", counters, store.clock.rng)
    rates = {type: task.rate for type, task in tasks.items()}
    while not is_stopping():
        try:
            await store.run_async(store.settings.set_rates(rates))
        except StoreError as error:
            await store.clock.sleep_async(backoff.failed(error))
        else:
            return
