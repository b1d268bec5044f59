"""``app.crons`` and ``client.crons``: jobs that are submitted by the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from fencepost.core.bounds import CRON_NEXT_DEFAULT
from fencepost.handles.job import AsyncJobHandle, JobHandle, async_handle, handle
from fencepost.handles.part import BackendPart

C = TypeVar("C")
Ticks = list[datetime]


class Crons(BackendPart, Generic[C]):
    """The crons; ``aio.crons`` has the same methods, awaited. *C* is what is shown of one."""

    def list(self) -> list[C]:
        """Return every cron by name: its times, its pause, its last tick and its next."""
        return self._backend.run(self._actions.crons.all())

    def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; jobs that it has made go on."""
        self._backend.run(self._actions.crons.pause(name))

    def resume(self, name: str) -> None:
        """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
        self._backend.run(self._actions.crons.resume(name))

    def run(self, name: str) -> JobHandle[Any]:
        """Submit a job of a cron now; its schedule goes on as it was."""
        return handle(self._backend, self._backend.run(self._actions.crons.run(name)))

    def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return self._backend.run(self._actions.crons.next(name, count))

    def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it brings it back."""
        self._backend.run(self._actions.crons.forget(name))


class AsyncCrons(BackendPart, Generic[C]):
    """The awaited face of Crons."""

    async def list(self) -> list[C]:
        """Return every cron by name: its times, its pause, its last tick and its next."""
        return await self._backend.run_async(self._actions.crons.all())

    async def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; jobs that it has made go on."""
        await self._backend.run_async(self._actions.crons.pause(name))

    async def resume(self, name: str) -> None:
        """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
        await self._backend.run_async(self._actions.crons.resume(name))

    async def run(self, name: str) -> AsyncJobHandle[Any]:
        """Submit a job of a cron now; its schedule goes on as it was."""
        return async_handle(
            self._backend, await self._backend.run_async(self._actions.crons.run(name))
        )

    async def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return await self._backend.run_async(self._actions.crons.next(name, count))

    async def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it brings it back."""
        await self._backend.run_async(self._actions.crons.forget(name))
