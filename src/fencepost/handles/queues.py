"""``queues``, ``types`` and ``workers`` of an app or a client: look, pause and limit."""

from __future__ import annotations

from fencepost.actions.backend import Backend
from fencepost.core.bounds import SCALE_TARGET_DEFAULT
from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration


class _Queues:
    """What both faces hold."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._actions = backend.actions.queues


class Queues(_Queues):
    """The queues; ``aio.queues`` has the same methods, awaited."""

    def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return self._backend.run(self._actions.all())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        self._backend.run(self._actions.pause(name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        self._backend.run(self._actions.resume(name))

    def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        self._backend.run(self._actions.limit(name, max_running))

    def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return self._backend.run(self._actions.scale(name, target))


class AsyncQueues(_Queues):
    """The awaited face of Queues."""

    async def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return await self._backend.run_async(self._actions.all())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        await self._backend.run_async(self._actions.pause(name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        await self._backend.run_async(self._actions.resume(name))

    async def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        await self._backend.run_async(self._actions.limit(name, max_running))

    async def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return await self._backend.run_async(self._actions.scale(name, target))


class _Types:
    """What both faces hold."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._actions = backend.actions.types


class Types(_Types):
    """The types; ``aio.types`` has the same methods, awaited."""

    def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return self._backend.run(self._actions.all())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        self._backend.run(self._actions.pause(name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        self._backend.run(self._actions.resume(name))


class AsyncTypes(_Types):
    """The awaited face of Types."""

    async def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return await self._backend.run_async(self._actions.all())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        await self._backend.run_async(self._actions.pause(name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        await self._backend.run_async(self._actions.resume(name))


class Workers:
    """The workers; ``aio.workers`` has the same method, awaited."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return self._backend.run(self._backend.actions.workers())


class AsyncWorkers:
    """The awaited face of Workers."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return await self._backend.run_async(self._backend.actions.workers())
