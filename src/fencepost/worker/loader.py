"""Loads, before a handler starts, what the jobs have returned that its own has waited for.

One operation for all that a claim has brought, and none for jobs that waited for nothing or whose
handler takes no context. Results do not change once they have let a job go, so they can be loaded
ahead. While the store is away the jobs stay in hand, heartbeated, and it is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fencepost.core.job import ClaimedJob, Dependency
from fencepost.core.limits import LOAD_MAX
from fencepost.core.task import Task
from fencepost.errors import StoreError
from fencepost.observe.counters import Counters
from fencepost.store.plan import Operation
from fencepost.store.protocol import Store
from fencepost.worker.hand import Held
from fencepost.worker.patience import Patience

OnRefused = Callable[[Held, Exception], None]


class Loader:
    """Fills in the dependencies of held jobs."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task],
        counters: Counters,
        on_refused: OnRefused,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._patience = Patience("load", counters, store.clock.rng)
        self._on_refused = on_refused

    def owes(self, held: Held) -> bool:
        """Tell whether a job must not start before its dependencies are loaded."""
        return held.job.has_dependencies and held.dependencies is None and self._reads(held.job)

    def _reads(self, job: ClaimedJob) -> bool:
        return self._tasks[job.type].signature.context_name is not None

    async def load(self, waiting: Iterable[Held]) -> bool:
        """Load what is owed to *waiting* jobs; False, after a while, if the store was away."""
        owed = self._owed(waiting)
        try:
            await self._load(owed)
        except StoreError as error:
            await self._store.clock.sleep_async(self._patience.failed(error))
            return False
        except Exception as error:  # noqa: BLE001 - one that cannot be read must not hold up all
            if len(owed) == 1:
                self._on_refused(owed[0], error)
                return True
            for held in owed:
                if not await self.load([held]):
                    return False
        return True

    def load_here(self, waiting: Iterable[Held]) -> None:
        """Do so in this thread, if that is possible at once; whatever goes wrong is left over."""
        owed = self._owed(waiting)
        try:
            found = self._store.run(self._asked(owed))
        except Exception:  # noqa: BLE001 - the awaited way has an answer to everything
            return
        _fill(owed, found)

    def _owed(self, waiting: Iterable[Held]) -> list[Held]:
        return [held for held in waiting if not held.is_dropped and self.owes(held)][:LOAD_MAX]

    async def _load(self, owed: Sequence[Held]) -> None:
        found = await self._store.run_async(self._asked(owed))
        _fill(owed, found)
        self._patience.succeeded()

    def _asked(self, owed: Sequence[Held]) -> Operation[list[list[Dependency]]]:
        return self._store.dependencies([held.job.id for held in owed], with_results=True)


def _fill(owed: Sequence[Held], found: Sequence[Sequence[Dependency]]) -> None:
    for held, dependencies in zip(owed, found, strict=True):
        held.dependencies = dependencies
