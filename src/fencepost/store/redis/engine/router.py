"""Which server has the keys: the one in the URL, a Sentinel's master, or the master of a slot.

To ask is rare, when the store is opened and after a failover, and it blocks: awaited callers do it
in a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import redis
import redis.exceptions as theirs

from fencepost.store.redis.engine.address import Address, Deployment, ServerPlace
from fencepost.store.redis.engine.errors import BROKEN

ASK_TIMEOUT = 1.0
"""How long one of several servers may be silent before the next is asked."""


class Router:
    """Finds the server that has the keys."""

    def __init__(self, address: Address, *, patience: float) -> None:
        self._address = address
        self._timeout = min(patience, ASK_TIMEOUT)
        self._known = list(address.places)
        self._lock = threading.Lock()

    def find(self) -> ServerPlace:
        """Return where the server is now, or raise an error of the driver's."""
        if self._address.kind is Deployment.SERVER:
            return self._address.places[0]
        with self._lock:
            known = list(self._known)
        reasons: list[str] = []
        for place in known:
            try:
                found = self._ask(place)
            except (*BROKEN, theirs.RedisError) as error:
                reasons.append(f"{place}: {error}")
            else:
                if found is not None:
                    return found
                reasons.append(f"{place}: {self._denial()}")
        what = "Sentinel" if self._address.kind is Deployment.SENTINEL else "node of the cluster"
        raise theirs.ConnectionError(f"no {what} helped ({'; '.join(reasons)})")

    def _denial(self) -> str:
        if self._address.kind is Deployment.SENTINEL:
            return f"knows no master called {self._address.service!r}"
        return f"nobody serves slot {self._address.slot}"

    def _ask(self, place: ServerPlace) -> ServerPlace | None:
        if self._address.kind is Deployment.SENTINEL:
            words = ("SENTINEL", "get-master-addr-by-name", self._address.service)
            answer = self._command(place, self._address.sentinel_login, *words)
            if answer is None:
                return None
            self._remember([place, *self._address.places])
            return ServerPlace(_text(answer[0]), int(answer[1]))
        login = {"username": self._address.username, "password": self._address.password}
        ranges = self._command(place, login, "CLUSTER", "SLOTS")
        nodes = [(first, last, list(_nodes(place, rest))) for first, last, *rest in ranges]
        masters = [each[0] for first, last, each in nodes if first <= self._address.slot <= last]
        self._remember([*masters, *(node for _, _, each in nodes for node in each)])
        return masters[0] if masters else None

    def _remember(self, places: list[ServerPlace]) -> None:
        """Ask these next time, those of the URL after them."""
        with self._lock:
            self._known = list(dict.fromkeys([*places, *self._address.places]))

    def _command(self, place: ServerPlace, login: Any, *words: str) -> Any:
        kind: Any = redis.SSLConnection if self._address.has_tls else redis.Connection
        connection = kind(
            host=place.host,
            port=place.port,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            retry=None,
            protocol=2,
            **login,
            **self._address.secure(),
        )
        try:
            connection.connect()
            connection.send_command(*words)
            return connection.read_response()
        finally:
            connection.disconnect()


def _nodes(asked: ServerPlace, described: list[Any]) -> Iterator[ServerPlace]:
    """Yield the servers of a range of slots, the master first."""
    for host, port, *_ in described:
        name = _text(host) if host else asked.host  # a server may not know its own address
        yield ServerPlace(asked.host if name == "?" else name, int(port))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
