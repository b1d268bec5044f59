"""``app.queues``, ``app.types`` and ``app.workers``: look at the lanes, pause and limit them."""

from __future__ import annotations

from fencepost.actions.session import Session
from fencepost.actions.stats import scale
from fencepost.core.bounds import SCALE_TARGET_DEFAULT
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration
from fencepost.core.values.names import check_queue, check_type
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope


class Queues:
    """The queues of an app; ``app.aio.queues`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return self._session.store.run(self._session.store.overview.queues())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        self._session.store.run(self._session.store.settings.pause(Scope.QUEUE, check_queue(name)))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        self._session.store.run(self._session.store.settings.resume(Scope.QUEUE, check_queue(name)))

    def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        self._session.store.run(
            self._session.store.settings.limit(Scope.QUEUE, check_queue(name), max_running)
        )

    def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return self._session.run(scale(self._session, name, target))


class AsyncQueues:
    """The awaited face of Queues."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return await self._session.store.run_async(self._session.store.overview.queues())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        await self._session.store.run_async(
            self._session.store.settings.pause(Scope.QUEUE, check_queue(name))
        )

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        await self._session.store.run_async(
            self._session.store.settings.resume(Scope.QUEUE, check_queue(name))
        )

    async def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        await self._session.store.run_async(
            self._session.store.settings.limit(Scope.QUEUE, check_queue(name), max_running)
        )

    async def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return await self._session.run_async(scale(self._session, name, target))


class Types:
    """The types of an app; ``app.aio.types`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return self._session.store.run(self._session.store.overview.types())

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        self._session.store.run(self._session.store.settings.pause(Scope.TYPE, check_type(name)))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        self._session.store.run(self._session.store.settings.resume(Scope.TYPE, check_type(name)))


class AsyncTypes:
    """The awaited face of Types."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return await self._session.store.run_async(self._session.store.overview.types())

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        await self._session.store.run_async(
            self._session.store.settings.pause(Scope.TYPE, check_type(name))
        )

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        await self._session.store.run_async(
            self._session.store.settings.resume(Scope.TYPE, check_type(name))
        )


class Workers:
    """The workers of an app; ``app.aio.workers`` has the same method, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return self._session.store.run(self._session.store.cluster.workers())


class AsyncWorkers:
    """The awaited face of Workers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return await self._session.store.run_async(self._session.store.cluster.workers())
