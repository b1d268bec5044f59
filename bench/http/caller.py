"""The calling process of a benchmark: fixed requests over keep-alive connections, timed.

Plain sockets and no parser, so that it takes a tenth of what the server takes for a request. It is
reads one volley per line from standard input, and answers with one line.
"""

from __future__ import annotations

import re
import selectors
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bench.child import say
from fencepost.clock import Clock, SystemClock

TIMEOUT = 60.0
RECEIVE = 1 << 18
END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE)


class Volley(msgspec.Struct, frozen=True, kw_only=True):
    """The same request, again and again: on each connection as soon as the last is answered."""

    port: int
    request: bytes
    status: int
    """What it must be answered with."""
    connections: int
    count: int


class Timed(msgspec.Struct, frozen=True):
    """How long the whole volley took, and each answer; in seconds."""

    seconds: float
    latencies: list[float]


class Line:
    """One connection."""

    def __init__(self, volley: Volley) -> None:
        self.socket = socket.create_connection(("127.0.0.1", volley.port), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._volley = volley
        self._start = b"HTTP/1.1 %d " % volley.status
        self._heard = b""
        self.asked_at = 0.0

    def ask(self, now: float) -> None:
        self.asked_at = now
        self.socket.sendall(self._volley.request)

    def hear(self) -> bool:
        """Take what has come; tell whether the answer is whole."""
        part = self.socket.recv(RECEIVE)
        if not part:
            raise ConnectionError("the server hung up")
        heard = self._heard = self._heard + part
        end = heard.find(END_OF_HEAD)
        if end < 0:
            return False
        length = _LENGTH.search(heard, 0, end + 2)
        if length is None or not heard.startswith(self._start):
            raise ConnectionError(f"the server answered {heard[:300]!r}")
        if len(heard) < end + len(END_OF_HEAD) + int(length[1]):
            return False
        self._heard = b""
        return True


def fire(volley: Volley, clock: Clock) -> Timed:
    """Send the volley, and return when all is answered."""
    with _lines(volley) as (selector, lines):
        latencies: list[float] = []
        left = volley.count - len(lines)
        began = clock.monotonic()
        for line in lines:
            line.ask(clock.monotonic())
        while len(latencies) < volley.count:
            ready = selector.select(TIMEOUT)
            if not ready:
                raise ConnectionError(f"no answer for {TIMEOUT:g} s")
            for key, _ in ready:
                line = key.data
                if not line.hear():
                    continue
                now = clock.monotonic()
                latencies.append(now - line.asked_at)
                if left > 0:
                    left -= 1
                    line.ask(now)
        return Timed(clock.monotonic() - began, latencies)


@contextmanager
def _lines(volley: Volley) -> Iterator[tuple[selectors.BaseSelector, list[Line]]]:
    lines: list[Line] = []
    with selectors.DefaultSelector() as selector:
        try:
            for _ in range(min(volley.connections, volley.count)):
                lines.append(Line(volley))
                selector.register(lines[-1].socket, selectors.EVENT_READ, lines[-1])
            yield selector, lines
        finally:
            for line in lines:
                line.socket.close()


def main() -> None:
    clock = SystemClock()
    say("ready")
    for order in sys.stdin.buffer:
        timed = fire(msgspec.json.decode(order, type=Volley), clock)
        say(msgspec.json.encode(timed).decode())


if __name__ == "__main__":
    main()
