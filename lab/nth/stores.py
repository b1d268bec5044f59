"""An empty store of each kind for every run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
from tests.servers.places import sources
from tests.servers.postgres import PostgresServer, given
from tests.servers.wiping import wipe_through

from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.redis.store import RedisStore
from fencepost.store.sqlite.store import SqliteStore
from lab.nth.loop import LoopClock
from lab.redis import own_prefix, server_url, wipe

KINDS = ("memory", "sqlite", "postgres", "redis")


class Shelf(Protocol):
    """Where empty stores come from."""

    def open(self, clock: LoopClock) -> Store: ...


class MemoryShelf:
    """A new object for each."""

    def open(self, clock: LoopClock) -> Store:
        return MemoryStore(clock=clock)


class SqliteShelf:
    """A new file for each; nobody waits for the disk, as nobody cuts the power."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def open(self, clock: LoopClock) -> Store:
        self._count += 1
        path = self._folder / f"jobs{self._count}.db"
        return SqliteStore(str(path), clock=clock, durability="process")


class PostgresShelf:
    """One database, emptied for each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)

    def open(self, clock: LoopClock) -> Store:
        wipe_through(self._connection)
        store = PostgresStore(self._url, clock=clock)
        store.migrate()
        return store

    def close(self) -> None:
        self._connection.close()


class RedisShelf:
    """One prefix of one server, emptied for each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = own_prefix()

    def open(self, clock: LoopClock) -> Store:
        self.empty()
        return RedisStore(self._url, clock=clock, prefix=self._prefix)

    def empty(self) -> None:
        wipe(self._url, self._prefix)


@contextmanager
def shelf(kind: str, url: str | None = None) -> Iterator[Shelf]:
    """Yield where stores of *kind* come from; without a *url*, a server is started."""
    with ExitStack() as stack:
        if kind == "memory":
            yield MemoryShelf()
        elif kind == "sqlite":
            folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
            yield SqliteShelf(Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder))))
        elif kind == "redis":
            keys = RedisShelf(url or server_url(stack))
            stack.callback(keys.empty)
            yield keys
        else:
            made = PostgresShelf(url or database(stack))
            stack.callback(made.close)
            yield made


def database(stack: ExitStack) -> str:
    """Return the URL of an empty database on the server that is given, or on one of our own."""
    server = given()
    if server is None:
        server = stack.enter_context(PostgresServer(next(iter(sources()), None)))
    name = f"fencepost_lab_{os.getpid()}"
    server.drop_database(name)
    url = server.create_database(name)
    stack.callback(server.disconnect)
    stack.callback(server.drop_database, name)
    return url
