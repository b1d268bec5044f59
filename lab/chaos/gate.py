"""The way to the HTTP API: a port that stays while servers come and go, and a bad network."""

from __future__ import annotations

import socket
from random import Random

from fencepost.clock import Clock
from lab.chaos.proxy import Proxy

WAIT = 30.0


class Gate:
    """What workers know of the API: an address."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self._clock = clock
        self.proxy = Proxy(clock, Random(f"{seed} gate"))
        self.port = _free_port()
        """Where the API listens, behind the proxy."""
        self.proxy.target = self.port
        self.url = f"http://127.0.0.1:{self.proxy.port}"

    def await_open(self) -> bool:
        """Wait until the API listens; tell whether it does."""
        deadline = self._clock.monotonic() + WAIT
        while self._clock.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                self._clock.sleep(0.05)
            else:
                return True
        return False

    def mend(self) -> None:
        self.proxy.heal()

    def close(self) -> None:
        self.proxy.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port
