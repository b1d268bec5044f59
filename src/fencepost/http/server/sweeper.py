"""Ends connections that are held open for nothing: one look at all of them, every so often."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from fencepost.clock import Clock
from fencepost.http.server.connection import Connection
from fencepost.observe import names
from fencepost.observe.log import log


class Sweeper:
    """Looks at every connection of a server."""

    def __init__(
        self,
        connections: Collection[Connection],
        clock: Clock,
        *,
        interval: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._interval = interval
        self._is_stopping = is_stopping

    async def start(self) -> None:
        """Look, forever."""
        while True:
            self.step()
            await self._clock.sleep_async(self._interval)

    def step(self) -> None:
        """Look once at each."""
        now, is_stopping = self._clock.monotonic(), self._is_stopping()
        for connection in list(self._connections):
            try:
                connection.look(now, is_stopping=is_stopping)
            except Exception as error:  # noqa: BLE001 - one must not shield all the others
                kind = type(error).__qualname__
                log(names.HTTP_ERROR, level=logging.ERROR, route="", request_id=None, error=kind)
