"""Loads, before a handler starts, what the jobs have returned that its own has waited for.

One operation for all that a claim has brought, and none for jobs that waited for nothing or whose
handler takes no context. Results do not change once they have let a job go, so they can be loaded
ahead. While the store is away the jobs stay in flight, heartbeated, and it tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fencepost.core.bounds import LOAD_MAX
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.task import Task
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation
from fencepost.worker.run.inflight import InFlightJob
from fencepost.worker.run.store_calls import StoreBackoff

if TYPE_CHECKING:
    from fencepost.worker.run.executor import HandlerExecutor


class Loader:
    """Fills in the dependencies of held jobs, then has the executor start them."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        counters: Counters,
        executor: HandlerExecutor,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._backoff = StoreBackoff("load", counters, store.clock.rng)
        self._executor = executor
        self._waiting: list[InFlightJob] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, owed: Sequence[InFlightJob]) -> None:
        """Have jobs started once what they have waited for is loaded."""
        self._waiting.extend(owed)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._load_all())
            self._task.add_done_callback(self._done)

    def take_back(self) -> list[InFlightJob]:
        """Load no more; return the jobs that still wait for it."""
        left, self._waiting = self._waiting, []
        if self._task is not None:
            self._task.cancel()
        return left

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()  # a bug of ours is not to pass in silence

    async def _load_all(self) -> None:
        while self._waiting:
            await self._load_some(self._waiting)
            ready = [held for held in self._waiting if held.is_dropped or not self.owes(held)]
            self._waiting = [held for held in self._waiting if held not in ready]
            self._executor.start(ready)

    def owes(self, held: InFlightJob) -> bool:
        """Tell whether a job must not start before its dependencies are loaded."""
        return held.job.has_dependencies and held.dependencies is None and self._reads(held.job)

    def _reads(self, job: ClaimedJob) -> bool:
        return self._tasks[job.type].signature.context_name is not None

    async def _load_some(self, waiting: Iterable[InFlightJob]) -> bool:
        """Load what is owed to *waiting* jobs; False, after a while, if the store was away."""
        owed = self._owed(waiting)
        try:
            await self._load(owed)
        except StoreError as error:
            await self._store.clock.sleep_async(self._backoff.failed(error))
            return False
        except Exception as error:  # noqa: BLE001 - one that cannot be read must not hold up all
            if len(owed) == 1:
                self._refuse(owed[0], error)
                return True
            for held in owed:
                if not await self._load_some([held]):
                    return False
        return True

    def _refuse(self, held: InFlightJob, error: Exception) -> None:
        if held in self._waiting:  # else it was given back meanwhile
            self._waiting.remove(held)
            self._executor.refuse(held, error)

    def load_here(self, waiting: Iterable[InFlightJob]) -> None:
        """Do so in this thread, if that is possible at once; whatever goes wrong is left over."""
        owed = self._owed(waiting)
        try:
            found = self._store.run(self._asked(owed))
        except Exception:  # noqa: BLE001 - the awaited way has an answer to everything
            return
        _fill(owed, found)

    def _owed(self, waiting: Iterable[InFlightJob]) -> list[InFlightJob]:
        return [held for held in waiting if not held.is_dropped and self.owes(held)][:LOAD_MAX]

    async def _load(self, owed: Sequence[InFlightJob]) -> None:
        found = await self._store.run_async(self._asked(owed))
        _fill(owed, found)
        self._backoff.failures = 0

    def _asked(self, owed: Sequence[InFlightJob]) -> Operation[list[list[Dependency]]]:
        return self._store.reader.dependencies([held.job.id for held in owed], with_results=True)


def _fill(owed: Sequence[InFlightJob], found: Sequence[Sequence[Dependency]]) -> None:
    for held, dependencies in zip(owed, found, strict=True):
        held.dependencies = dependencies
