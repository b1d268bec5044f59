"""One deadline for all the waits of a delivery, however many pieces its answer comes in."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import Any

from fencepost.clock import Clock

CHUNK = 16_384


class Deadline:
    """A moment after which nothing is waited for any more."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, or raise TimeoutError."""
        seconds = self._ends_at - self._clock.monotonic()
        if seconds <= 0:
            raise TimeoutError("it took longer than Webhooks(timeout=…) allows")
        return seconds

    def shorten(self, seconds: float) -> None:
        """Let it come no later than so many seconds from now."""
        self._ends_at = min(self._ends_at, self._clock.monotonic() + seconds)


class TimedSocket:
    """As much of a socket as ``http.client`` uses, every wait of it bound by one deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        with memoryview(data) as view, view.cast("B") as rest:
            sent = 0
            while sent < len(rest):
                self._connection.settimeout(self._deadline.left())
                sent += self._connection.send(rest[sent : sent + CHUNK])

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._receive), CHUNK)

    def close(self) -> None:
        """Do nothing: the client closes before the answer is read, and who connected closes too."""

    def _receive(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        return self._connection.recv_into(buffer)


class _TimedReader(io.RawIOBase):
    def __init__(self, receive: Callable[[Any], int]) -> None:
        self._receive = receive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._receive(buffer)
