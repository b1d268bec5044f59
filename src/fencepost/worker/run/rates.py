"""Tells the store how often the jobs of a worker's tasks may start.

A rate lives in the store, so that every claimer obeys it, also one that does not know the task. A
worker declares all of its types, those without a rate too: what an earlier version of the app had
declared must not outlive it. Whoever starts last is heeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.core.job.task import Task
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.store import Store
from fencepost.worker.run.store_backoff import Patience


async def declare_rates(
    store: Store,
    tasks: Mapping[str, Task],
    counters: Counters,
    *,
    is_stopping: Callable[[], bool],
) -> None:
    """Write the rates of *tasks* down, however long the store is away: claims come after that."""
    patience = Patience("set_rates", counters, store.clock.rng)
    rates = {type: task.rate for type, task in tasks.items()}
    while not is_stopping():
        try:
            await store.run_async(store.settings.set_rates(rates))
        except StoreError as error:
            await store.clock.sleep_async(patience.failed(error))
        else:
            return
