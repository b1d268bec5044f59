"""What an app and a client have in common: ``jobs``, ``queues`` and so on."""

from __future__ import annotations

from typing import Generic, TypeVar

from fencepost.actions.backend import Backend
from fencepost.core.bounds import STATS_WINDOW_DEFAULT
from fencepost.core.stats.statistics import Statistics
from fencepost.core.values.times import Duration
from fencepost.handles.events import AsyncEvents, Events
from fencepost.handles.flows import AsyncFlows, Flows
from fencepost.handles.job import Awaited, Blocking
from fencepost.handles.jobs import AsyncDeadLetterList, AsyncJobs, DeadLetterList, Jobs
from fencepost.handles.queues import (
    AsyncCronTable,
    AsyncQueueList,
    AsyncTypeList,
    AsyncWorkerList,
    CronTable,
    QueueList,
    TypeList,
    WorkerList,
)
from fencepost.handles.replays import AsyncReplayTable, ReplayTable

J = TypeVar("J")
C = TypeVar("C")


class Root(Blocking, Generic[J, C]):
    """All parts of one backend. *J* is a job as lists show it, *C* a cron."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.jobs = Jobs[J](backend)
        self.flows = Flows(backend)
        self.dead_letters = DeadLetterList(backend)
        self.replays = ReplayTable(backend)
        self.events = Events(backend)
        self.queues = QueueList(backend)
        self.types = TypeList(backend)
        self.workers = WorkerList(backend)
        self.crons = CronTable[C](backend)

    def limit(self, *, max_running: int | None) -> None:
        """Limit how many jobs run at once in all, over all workers; None for no limit."""
        self._run(self._actions.limit(max_running))

    def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts now, and rates, wait and run times of the last *window*."""
        return self._run(self._actions.stats(window))


class AsyncRoot(Awaited, Generic[J, C]):
    """The awaited face of Root."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.jobs = AsyncJobs[J](backend)
        self.flows = AsyncFlows(backend)
        self.dead_letters = AsyncDeadLetterList(backend)
        self.replays = AsyncReplayTable(backend)
        self.events = AsyncEvents(backend)
        self.queues = AsyncQueueList(backend)
        self.types = AsyncTypeList(backend)
        self.workers = AsyncWorkerList(backend)
        self.crons = AsyncCronTable[C](backend)

    async def limit(self, *, max_running: int | None) -> None:
        """Limit how many jobs run at once in all, over all workers; None for no limit."""
        await self._run(self._actions.limit(max_running))

    async def stats(self, *, window: Duration = STATS_WINDOW_DEFAULT) -> Statistics:
        """Return counts now, and rates, wait and run times of the last *window*."""
        return await self._run(self._actions.stats(window))
