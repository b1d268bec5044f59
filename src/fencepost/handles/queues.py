"""``queues``, ``types`` and ``workers`` of an app or a client: look, pause and limit."""

from __future__ import annotations

from fencepost.core.bounds import SCALE_TARGET_DEFAULT
from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration
from fencepost.handles.part import BackendPart


class Queues(BackendPart):
    """The queues; ``aio.queues`` has the same methods, awaited."""

    def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return self._backend.run(self._actions.queues.all())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        self._backend.run(self._actions.queues.pause(name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        self._backend.run(self._actions.queues.resume(name))

    def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        self._backend.run(self._actions.queues.limit(name, max_running))

    def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return self._backend.run(self._actions.queues.scale(name, target))


class AsyncQueues(BackendPart):
    """The awaited face of Queues."""

    async def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return await self._backend.run_async(self._actions.queues.all())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        await self._backend.run_async(self._actions.queues.pause(name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        await self._backend.run_async(self._actions.queues.resume(name))

    async def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        await self._backend.run_async(self._actions.queues.limit(name, max_running))

    async def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return await self._backend.run_async(self._actions.queues.scale(name, target))


class Types(BackendPart):
    """The types; ``aio.types`` has the same methods, awaited."""

    def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return self._backend.run(self._actions.types.all())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        self._backend.run(self._actions.types.pause(name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        self._backend.run(self._actions.types.resume(name))


class AsyncTypes(BackendPart):
    """The awaited face of Types."""

    async def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return await self._backend.run_async(self._actions.types.all())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        await self._backend.run_async(self._actions.types.pause(name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        await self._backend.run_async(self._actions.types.resume(name))


class Workers(BackendPart):
    """The workers; ``aio.workers`` has the same method, awaited."""

    def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return self._backend.run(self._actions.workers())


class AsyncWorkers(BackendPart):
    """The awaited face of Workers."""

    async def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return await self._backend.run_async(self._actions.workers())
