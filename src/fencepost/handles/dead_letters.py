"""``app.dead_letters`` and ``client.dead_letters``: jobs that ended in failure, by type."""

from __future__ import annotations

from typing import Any

from fencepost.actions.pages import DeadLetters
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.handles.job import (
    AsyncJobHandle,
    JobHandle,
    async_handle,
    handle,
    naming_existing,
    naming_existing_async,
)
from fencepost.handles.part import BackendPart


class DeadLetterList(BackendPart):
    """The dead letters; ``aio.dead_letters`` has the same methods, awaited."""

    def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return self._backend.run(self._actions.dead_letters.find(type, after, limit))

    def replay(self, id: str) -> JobHandle[Any]:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        with naming_existing(self._backend):
            return handle(self._backend, self._backend.run(self._actions.dead_letters.replay(id)))

    def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        return self._backend.run(self._actions.dead_letters.replay_all(type, limit))

    def discard(self, id: str) -> None:
        """Take a dead letter off the list; its job is kept until retention ends it."""
        self._backend.run(self._actions.dead_letters.discard(id))


class AsyncDeadLetterList(BackendPart):
    """The awaited face of DeadLetterList."""

    async def list(
        self, *, type: str | None = None, after: str | None = None, limit: int = PAGE_DEFAULT
    ) -> DeadLetters:
        """Return a page of dead letters, the most recent first."""
        return await self._backend.run_async(self._actions.dead_letters.find(type, after, limit))

    async def replay(self, id: str) -> AsyncJobHandle[Any]:
        """Submit a dead letter afresh: a new job with its payload, and the record removed."""
        async with naming_existing_async(self._backend):
            stored = await self._backend.run_async(self._actions.dead_letters.replay(id))
        return async_handle(self._backend, stored)

    async def replay_all(self, *, type: str | None = None, limit: int | None = None) -> int:
        """Replay every dead letter (of a type), at most *limit*; return how many were."""
        return await self._backend.run_async(self._actions.dead_letters.replay_all(type, limit))

    async def discard(self, id: str) -> None:
        """Take a dead letter off the list; its job is kept until retention ends it."""
        await self._backend.run_async(self._actions.dead_letters.discard(id))
