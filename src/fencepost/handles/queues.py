"""``queues``, ``types``, ``workers`` and ``crons`` of an app or a client: list and pause them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from fencepost.core.bounds import CRON_NEXT_DEFAULT, CRON_RUNS_DEFAULT, SCALE_TARGET_DEFAULT
from fencepost.core.runs import CronRun
from fencepost.core.stats.overview import QueueView, Scale, TypeView, WorkerInfo
from fencepost.core.values.times import Duration
from fencepost.handles.job import AsyncJobHandle, Awaited, Blocking, JobHandle

C = TypeVar("C")
Ticks = list[datetime]
Runs = list[CronRun]
Workers = list[WorkerInfo]


class QueueList(Blocking):
    """The queues; ``aio.queues`` has the same methods, awaited."""

    def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return self._run(self._actions.queues.all())

    def pause(self, name: str) -> None:
        """Let no more jobs of a queue start; running ones go on."""
        self._run(self._actions.queues.pause(name))

    def resume(self, name: str) -> None:
        """Let jobs of a queue start again, in their old order."""
        self._run(self._actions.queues.resume(name))

    def limit(self, name: str, *, max_running: int | None) -> None:
        """Limit how many jobs of a queue run at once, over all workers; None for no limit."""
        self._run(self._actions.queues.limit(name, max_running))

    def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return self._run(self._actions.queues.scale(name, target))


class AsyncQueueList(Awaited):
    """The awaited face of QueueList."""

    async def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return await self._run(self._actions.queues.all())

    async def pause(self, name: str) -> None:
        """Let no more jobs of a queue start; running ones go on."""
        await self._run(self._actions.queues.pause(name))

    async def resume(self, name: str) -> None:
        """Let jobs of a queue start again, in their old order."""
        await self._run(self._actions.queues.resume(name))

    async def limit(self, name: str, *, max_running: int | None) -> None:
        """Limit how many jobs of a queue run at once, over all workers; None for no limit."""
        await self._run(self._actions.queues.limit(name, max_running))

    async def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return await self._run(self._actions.queues.scale(name, target))


class TypeList(Blocking):
    """The types; ``aio.types`` has the same methods, awaited."""

    def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return self._run(self._actions.types.all())

    def pause(self, name: str) -> None:
        """Let no more jobs of a type start; running ones go on."""
        self._run(self._actions.types.pause(name))

    def resume(self, name: str) -> None:
        """Let jobs of a type start again, in their old order."""
        self._run(self._actions.types.resume(name))

    def limit(self, name: str, *, rate: str | None) -> None:
        """Let jobs of a type start at most at this *rate*, such as ``"100/m"``; None for no limit.

        It holds until a worker starts: a worker declares the rates that its code has. Raises
        InvalidRateError.
        """
        self._run(self._actions.types.limit(name, rate))


class AsyncTypeList(Awaited):
    """The awaited face of TypeList."""

    async def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return await self._run(self._actions.types.all())

    async def pause(self, name: str) -> None:
        """Let no more jobs of a type start; running ones go on."""
        await self._run(self._actions.types.pause(name))

    async def resume(self, name: str) -> None:
        """Let jobs of a type start again, in their old order."""
        await self._run(self._actions.types.resume(name))

    async def limit(self, name: str, *, rate: str | None) -> None:
        """Let jobs of a type start at most at this *rate*; see ``TypeList.limit``."""
        await self._run(self._actions.types.limit(name, rate))


class WorkerList(Blocking):
    """The workers; ``aio.workers`` has the same methods, awaited."""

    def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return self._run(self._actions.workers())

    def gone(self) -> Workers:
        """Return the last 100 workers that stopped or fell silent within an hour."""
        return self._run(self._actions.gone_workers())


class AsyncWorkerList(Awaited):
    """The awaited face of WorkerList."""

    async def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return await self._run(self._actions.workers())

    async def gone(self) -> Workers:
        """Return the last 100 workers that stopped or fell silent within an hour."""
        return await self._run(self._actions.gone_workers())


class CronTable(Blocking, Generic[C]):
    """The crons; ``aio.crons`` has the same methods, awaited. *C* is how one is shown."""

    def list(self) -> list[C]:
        """Return every cron by name, with its schedule, last and next tick."""
        return self._run(self._actions.crons.all())

    def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; its submitted jobs still run."""
        self._run(self._actions.crons.pause(name))

    def resume(self, name: str) -> None:
        """Fire the ticks of a cron again, without those missed meanwhile."""
        self._run(self._actions.crons.resume(name))

    def run(self, name: str) -> JobHandle[Any]:
        """Submit a job of a cron now; its schedule does not change."""
        return self._handle(self._run(self._actions.crons.run(name)))

    def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return self._run(self._actions.crons.next(name, count))

    def runs(self, name: str, *, limit: int = CRON_RUNS_DEFAULT) -> Runs:
        """Return the newest jobs of a cron that are kept, the newest first."""
        return self._run(self._actions.crons.runs(name, limit))

    def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it adds it again."""
        self._run(self._actions.crons.forget(name))


class AsyncCronTable(Awaited, Generic[C]):
    """The awaited face of CronTable."""

    async def list(self) -> list[C]:
        """Return every cron by name, with its schedule, last and next tick."""
        return await self._run(self._actions.crons.all())

    async def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; its submitted jobs still run."""
        await self._run(self._actions.crons.pause(name))

    async def resume(self, name: str) -> None:
        """Fire the ticks of a cron again, without those missed meanwhile."""
        await self._run(self._actions.crons.resume(name))

    async def run(self, name: str) -> AsyncJobHandle[Any]:
        """Submit a job of a cron now; its schedule does not change."""
        return self._handle(await self._run(self._actions.crons.run(name)))

    async def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return await self._run(self._actions.crons.next(name, count))

    async def runs(self, name: str, *, limit: int = CRON_RUNS_DEFAULT) -> Runs:
        """Return the newest jobs of a cron that are kept, the newest first."""
        return await self._run(self._actions.crons.runs(name, limit))

    async def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it adds it again."""
        await self._run(self._actions.crons.forget(name))
