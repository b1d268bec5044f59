"""What an app and a client have in common: the handles that hang on them."""

from __future__ import annotations

from typing import Generic, TypeVar

from fencepost.actions.backend import Backend
from fencepost.core.bounds import STATS_WINDOW_DEFAULT
from fencepost.core.stats.recent import Statistics
from fencepost.core.values.duration import Duration
from fencepost.handles.crons import AsyncCrons, Crons
from fencepost.handles.dead_letters import AsyncDeadLetterList, DeadLetterList
from fencepost.handles.events import AsyncEvents, Events
from fencepost.handles.flows import AsyncFlows, Flows
from fencepost.handles.jobs import AsyncJobs, Jobs
from fencepost.handles.queues import AsyncQueues, AsyncTypes, AsyncWorkers, Queues, Types, Workers

J = TypeVar("J")
C = TypeVar("C")


class Root(Generic[J, C]):
    """The jobs and all else of one backend. *J* is a job as lists show it, *C* a cron."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.jobs = Jobs[J](backend)
        self.flows = Flows(backend)
        self.dead_letters = DeadLetterList(backend)
        self.events = Events(backend)
        self.queues = Queues(backend)
        self.types = Types(backend)
        self.workers = Workers(backend)
        self.crons = Crons[C](backend)

    def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        self._backend.run(self._backend.actions.limit(max_running))

    def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return self._backend.run(self._backend.actions.stats(window))


class AsyncRoot(Generic[J, C]):
    """The awaited face of Root."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.jobs = AsyncJobs[J](backend)
        self.flows = AsyncFlows(backend)
        self.dead_letters = AsyncDeadLetterList(backend)
        self.events = AsyncEvents(backend)
        self.queues = AsyncQueues(backend)
        self.types = AsyncTypes(backend)
        self.workers = AsyncWorkers(backend)
        self.crons = AsyncCrons[C](backend)

    async def limit(self, *, max_running: int | None) -> None:
        """Run at most so many jobs at once in all, over all workers; None lifts the limit."""
        await self._backend.run_async(self._backend.actions.limit(max_running))

    async def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts, and rates and times of wait and run of the last *window*."""
        return await self._backend.run_async(self._backend.actions.stats(window))
