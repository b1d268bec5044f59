"""Waiting for a datagram, or for nothing."""

from __future__ import annotations

import asyncio
import socket

from fencepost.clock import SystemClock
from fencepost.platform.sockets import DATAGRAM_MAX, drain, wait_for, wait_for_nothing


class PollingListener:
    """Is never woken: its caller polls."""

    def wait(self, timeout: float) -> bool:
        wait_for_nothing(timeout)
        return False

    async def wait_async(self, timeout: float) -> bool:
        never = asyncio.get_running_loop().create_future()
        await asyncio.wait([never], timeout=timeout)
        return False

    def close(self) -> None:
        """Do nothing."""


class DatagramListener:
    """Wakes when a datagram arrives that is ours."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening

    def is_ours(self, datagram: bytes) -> bool:
        """Return whether a datagram came from a store of this database."""
        return bool(datagram)

    def wait(self, timeout: float) -> bool:
        clock = SystemClock()
        end = clock.monotonic() + timeout
        while wait_for(self._socket, end - clock.monotonic()):
            if drain(self._socket, self.is_ours):
                return True
        return False

    async def wait_async(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                while not self.is_ours(await loop.sock_recv(self._socket, DATAGRAM_MAX)):
                    pass
        except TimeoutError:
            return False
        drain(self._socket, self.is_ours)
        return True

    def close(self) -> None:
        self._socket.close()
