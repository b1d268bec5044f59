"""``replays`` of an app or a client: replay many dead letters at a rate, watch and steer that."""

from __future__ import annotations

from typing import Unpack

from fencepost.core.job.replay_order import ReplayOptions, ReplayView
from fencepost.handles.job import Awaited, Blocking


class ReplayTable(Blocking):
    """The replays; ``aio.replays`` has the same methods, awaited."""

    def start(self, **options: Unpack[ReplayOptions]) -> ReplayView:
        """Start a replay of the dead letters that meet every condition, at a rate.

        A leader (of a worker or a server) goes on with it, whatever becomes of this process.
        """
        return self._run(self._actions.replays.start(options))

    def list(self) -> list[ReplayView]:
        """Return the replays that are kept, the newest first."""
        return self._run(self._actions.replays.all())

    def get(self, id: str) -> ReplayView:
        """Return a replay, or raise ReplayNotFoundError."""
        return self._run(self._actions.replays.get(id))

    def hold(self, id: str) -> ReplayView:
        """Let a replay make no more jobs, until it is resumed."""
        return self._run(self._actions.replays.steer(id, "hold"))

    def resume(self, id: str) -> ReplayView:
        """Let a replay go on."""
        return self._run(self._actions.replays.steer(id, "resume"))

    def stop(self, id: str) -> ReplayView:
        """End a replay; what it has not replayed stays a dead letter."""
        return self._run(self._actions.replays.steer(id, "stop"))


class AsyncReplayTable(Awaited):
    """The awaited face of ReplayTable."""

    async def start(self, **options: Unpack[ReplayOptions]) -> ReplayView:
        """Start a replay of the dead letters that meet every condition, at a rate.

        A leader (of a worker or a server) goes on with it, whatever becomes of this process.
        """
        return await self._run(self._actions.replays.start(options))

    async def list(self) -> list[ReplayView]:
        """Return the replays that are kept, the newest first."""
        return await self._run(self._actions.replays.all())

    async def get(self, id: str) -> ReplayView:
        """Return a replay, or raise ReplayNotFoundError."""
        return await self._run(self._actions.replays.get(id))

    async def hold(self, id: str) -> ReplayView:
        """Let a replay make no more jobs, until it is resumed."""
        return await self._run(self._actions.replays.steer(id, "hold"))

    async def resume(self, id: str) -> ReplayView:
        """Let a replay go on."""
        return await self._run(self._actions.replays.steer(id, "resume"))

    async def stop(self, id: str) -> ReplayView:
        """End a replay; what it has not replayed stays a dead letter."""
        return await self._run(self._actions.replays.steer(id, "stop"))
