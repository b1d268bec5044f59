"""One server: its connections, blocking and awaited, and what it says when one is opened.

A server is looked at with every connection that is opened to it, before anything is sent: whether
it is a master, new enough, and gives what the URL promises. So a server that was restarted with
other settings, or has become a replica, is noticed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any

import redis
import redis.asyncio
import redis.exceptions as theirs

from fencepost.generators import drive, drive_async
from fencepost.store.redis.engine.address import Address, Deployment, ServerPlace
from fencepost.store.redis.engine.durability import Durability, Facts, facts_of, lacking
from fencepost.store.redis.engine.errors import UnfitError
from fencepost.store.redis.engine.shape import SHAPES, TYPES, strangers

CONNECTIONS_MAX = 32

Questions = Generator[tuple[Any, ...], Any, Facts]


class Master:
    """A pool of connections for threads, and one for each event loop."""

    def __init__(
        self, place: ServerPlace, address: Address, patience: float, era: Callable[[], int]
    ):
        self.place = place
        self.era = 0
        """A number that changes when the server's data may have become older."""
        self._address = address
        self._next_era = era
        self._history: str | None = None
        self._lock = threading.Lock()
        options: dict[str, Any] = {
            "host": place.host,
            "port": place.port,
            "max_connections": CONNECTIONS_MAX,
            "socket_timeout": patience,
            "socket_connect_timeout": patience,
            "timeout": patience,
            "retry": None,
            "protocol": 2,
            "client_name": f"fencepost-{os.getpid()}",
            **address.login(),
        }
        self._options = options
        # The driver's pools and connections have no types.
        kind = redis.SSLConnection if address.has_tls else redis.Connection
        blocking: Any = redis.BlockingConnectionPool
        self.pool: Any = blocking(connection_class=kind, redis_connect_func=self._greet, **options)
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = (
            weakref.WeakKeyDictionary()
        )

    def pool_of(self, loop: asyncio.AbstractEventLoop) -> Any:
        """Return the pool of an event loop."""
        with self._lock:
            pool = self._pools.get(loop)
            if pool is None:
                kinds = redis.asyncio.SSLConnection, redis.asyncio.Connection
                pool = redis.asyncio.BlockingConnectionPool(
                    connection_class=kinds[0] if self._address.has_tls else kinds[1],
                    redis_connect_func=self._greet_async,
                    **self._options,
                )
                self._pools[loop] = pool
            return pool

    def client(self) -> redis.Redis:
        """Return a client of its own, for what is not a script."""
        kind = redis.SSLConnection if self._address.has_tls else redis.Connection
        # What blocks on the server is not to be cut off here.
        options = {**self._options, "socket_timeout": None}
        options.pop("timeout")
        pool = redis.ConnectionPool(connection_class=kind, **options)
        return redis.Redis.from_pool(pool)

    # What is asked when a connection is opened.

    def _greet(self, connection: Any) -> None:
        connection.on_connect()
        drive(self.questions(), lambda words: ask(connection, words))

    async def _greet_async(self, connection: Any) -> None:
        await connection.on_connect()
        await drive_async(self.questions(), lambda words: ask_async(connection, words))

    def questions(self) -> Questions:
        """Ask a server about itself; raise UnfitError if it cannot be used."""
        facts = yield from self.facts()
        self._check(facts)
        if facts.history is None or facts.history != self._history:
            yield from self._check_keys()
            with self._lock:
                if self.era == 0 or facts.history != self._history:
                    self.era = self._next_era()
                self._history = facts.history
        return facts

    def facts(self) -> Questions:
        """Ask a server what it says about itself."""
        try:
            info = yield ("INFO",)
        except theirs.NoPermissionError:
            info = b""
        sync = None
        if self._address.durability is Durability.POWER:
            try:
                answer = yield ("CONFIG", "GET", "appendfsync")
                sync = answer[1].decode() if len(answer) == 2 else None
            except theirs.ResponseError:  # often forbidden, or renamed by a host
                sync = None
        return facts_of(info, sync)

    def _check(self, facts: Facts) -> None:
        address = self._address
        if facts.is_loading:
            raise UnfitError("LOADING the server is reading its data from the disk; wait a moment")
        if facts.is_too_old:
            raise UnfitError(f"Redis {facts.version} is too old; install 6.2 or newer")
        if facts.mode == "sentinel":
            raise UnfitError(
                "this is a Sentinel; write redis+sentinel://host:port/name-of-the-master"
            )
        if facts.mode == "cluster" and address.kind is not Deployment.CLUSTER:
            raise UnfitError("this server is a part of a cluster; write redis+cluster://host:port")
        if facts.mode == "standalone" and address.kind is Deployment.CLUSTER:
            raise UnfitError("this server is not a part of a cluster; write redis://host:port")
        if facts.role is not None and facts.role != "master":
            text = "READONLY this server is a replica; name the master in the URL"
            raise UnfitError(text, may_move=True)
        changes = list(lacking(facts, address.durability, address.replicas))
        if changes:
            raise UnfitError(
                f"the server does not give durability={address.durability.value}: "
                f"{'; '.join(changes)}. Or write durability=none into the URL, if acknowledged "
                f"jobs may be lost"
            )

    def _check_keys(self) -> Questions:
        """Look whether the keys are ours."""
        names = [*SHAPES]
        kinds = yield ("EVAL", TYPES, 1, self._address.prefix.encode(), *names)
        found = strangers(dict(zip(names, (kind.decode() for kind in kinds), strict=True)))
        if found:
            name, kind = next(iter(found.items()))
            raise UnfitError(
                f"key {self._address.prefix}{name} is a {kind}, not a {SHAPES[name]}: another "
                f"application uses this prefix; give this app another one, such as "
                f"?prefix={{name}}:"
            )
        return Facts()

    def close(self, *, at_once: bool) -> None:
        """Close the connections, also those that are in use if *at_once*."""
        self.pool.disconnect(inuse_connections=at_once)
        with self._lock:
            pools = list(self._pools.items())
        for loop, pool in pools:
            if loop.is_closed():
                continue
            in_use = pool._in_use_connections if at_once else ()
            for connection in [*pool._available_connections, *in_use]:
                writer = getattr(connection, "_writer", None)
                if writer is not None:
                    try:
                        loop.call_soon_threadsafe(writer.close)
                    except RuntimeError:
                        continue


def ask(connection: Any, words: tuple[Any, ...]) -> Any:
    """Send one command, and return its answer."""
    connection.send_command(*words, check_health=False)
    return connection.read_response()


async def ask_async(connection: Any, words: tuple[Any, ...]) -> Any:
    """Do the same without blocking the event loop."""
    await connection.send_command(*words, check_health=False)
    return await connection.read_response()
