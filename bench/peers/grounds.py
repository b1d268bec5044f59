"""The two servers, and stores of peers on them.

Both are started for one run, with data on this machine's disk, and removed after it. PostgreSQL
waits for its disk at each commit. Redis keeps an append-only file that it flushes each second, as
all queues on it recommend.

Each peer has a database of its own. One with jobs in it is filled once by the peer itself and then
copied by the server, so that each measurement of a peer begins with the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self

import psycopg
import redis
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

from bench.peers.catalog import Engine, Peer
from bench.peers.processes import Programs
from fencepost.core.filter import JobFilter
from fencepost.core.job.lifecycle import State
from fencepost.store.open import open_store

POSTGRES_SETTINGS = {"shared_buffers": "512MB", "max_connections": "300", "max_wal_size": "2GB"}
REDIS_SETTINGS = {"save": "", "appendonly": "yes", "appendfsync": "everysec", "databases": "64"}
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
READ_SETTING = "select current_setting(%s)"
PORTION = 1_000
UNFINISHED = JobFilter(states=(State.SCHEDULED, State.RUNNING))


class Ground(ABC):
    """A server of one engine, and the stores on it."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._made: set[str] = set()

    @contextmanager
    def empty(self, peer: Peer) -> Iterator[str]:
        """Give a store in which there are no jobs."""
        with self._copied(peer, self._template(peer, 0)) as url:
            yield url

    @contextmanager
    def filled(self, peer: Peer, count: int) -> Iterator[str]:
        """Give a store in which *count* no-op jobs wait."""
        with self._copied(peer, self._template(peer, count)) as url:
            yield url

    def kept(self, peer: Peer, count: int) -> str:
        """Give a store in which *count* jobs waited when it was asked for first."""
        return self._url(self._template(peer, count, is_kept=True))

    @contextmanager
    def counting(self, peer: Peer, url: str) -> Iterator[Callable[[], int]]:
        """Give a function that returns how many jobs in the store are not done."""
        if peer.remaining:
            with self._counting(peer, url) as count:
                yield count
            return
        store = open_store(url)
        try:
            yield lambda: store.run(store.reader.count(UNFINISHED))
        finally:
            store.close()

    def _template(self, peer: Peer, count: int, *, is_kept: bool = False) -> str:
        place = self._place(peer, f"{'kept' if is_kept else 'jobs'}_{count}")
        if place not in self._made:
            self._make(place)
            self._programs.prepare(peer, self._url(place))
            if count:
                self._programs.fill(peer, self._url(place), count)
            self._tidy(place)
            self._made.add(place)
        return place

    @abstractmethod
    def describe(self) -> str:
        """Say what the server is, and what its acknowledgements survive."""

    @abstractmethod
    def _place(self, peer: Peer, name: str) -> str: ...
    @abstractmethod
    def _url(self, place: str) -> str: ...
    @abstractmethod
    def _make(self, place: str) -> None: ...
    @abstractmethod
    def _tidy(self, place: str) -> None: ...
    @abstractmethod
    def _copied(self, peer: Peer, template: str) -> AbstractContextManager[str]: ...
    @abstractmethod
    def _counting(self, peer: Peer, url: str) -> AbstractContextManager[Callable[[], int]]: ...


class PostgresGround(Ground):
    """Databases on a PostgreSQL server."""

    def __init__(self, programs: Programs, server: PostgresServer) -> None:
        super().__init__(programs)
        self._server = server

    @contextmanager
    def held_snapshot(self, url: str) -> Iterator[None]:
        """Hold the present open, by a connection of its own."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("begin isolation level repeatable read, read only")
            connection.execute("select count(*) from pg_class")
            yield
            connection.execute("rollback")

    def describe(self) -> str:
        with psycopg.connect(self._server.url()) as connection:
            version = connection.info.server_version // 10_000
            values = [connection.execute(READ_SETTING, (name,)).fetchall() for name in SETTINGS]
        shown = [f"{name} {rows[0][0]}" for name, rows in zip(SETTINGS, values, strict=True)]
        return f"PostgreSQL {version}: {', '.join(shown)}"

    def _place(self, peer: Peer, name: str) -> str:
        return f"{peer.name}_{name}".replace("-", "_")

    def _url(self, place: str) -> str:
        return self._server.url(place)

    def _make(self, place: str) -> None:
        self._server.create_database(place)

    def _tidy(self, place: str) -> None:
        with psycopg.connect(self._url(place), autocommit=True) as connection:
            connection.execute("vacuum (analyze)")
        # The pages that a copy begins with are on the disk, and no checkpoint falls into a figure.
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute("checkpoint")

    @contextmanager
    def _copied(self, peer: Peer, template: str) -> Iterator[str]:
        place = self._place(peer, "work")
        self._server.drop_database(place)
        self._server.create_database(place, template)
        try:
            yield self._url(place)
        finally:
            self._server.drop_database(place)

    @contextmanager
    def _counting(self, peer: Peer, url: str) -> Iterator[Callable[[], int]]:
        assert isinstance(peer.remaining, str)
        query = peer.remaining.encode()
        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda: int(connection.execute(query).fetchall()[0][0])


class RedisGround(Ground):
    """Numbered databases on a Redis server."""

    def __init__(self, programs: Programs, server: RedisServer) -> None:
        super().__init__(programs)
        self._server = server
        self._numbers: dict[str, int] = {}

    def describe(self) -> str:
        with self._server.client() as client:
            found: Any = client.info("server")
        name = "Valkey" if "valkey_version" in found else "Redis"
        version = found.get("valkey_version", found["redis_version"])
        return f"{name} {version}: append-only file, flushed each second"

    def _place(self, peer: Peer, name: str) -> str:
        place = f"{peer.name}_{name}"
        self._numbers.setdefault(place, len(self._numbers) + 1)
        return place

    def _url(self, place: str) -> str:
        return f"redis://127.0.0.1:{self._server.port}/{self._numbers[place]}"

    def _make(self, place: str) -> None:
        with self._client(place) as client:
            client.flushdb()

    def _tidy(self, place: str) -> None:
        pass

    @contextmanager
    def _copied(self, peer: Peer, template: str) -> Iterator[str]:
        place = self._place(peer, "work")
        self._make(place)
        with self._client(template) as client:
            pipe = client.pipeline(transaction=False)
            for number, key in enumerate(client.scan_iter(count=PORTION), 1):
                pipe.copy(key, key, destination_db=self._numbers[place])
                if number % PORTION == 0:
                    pipe.execute()
            pipe.execute()
        try:
            yield self._url(place)
        finally:
            self._make(place)

    @contextmanager
    def _counting(self, peer: Peer, url: str) -> Iterator[Callable[[], int]]:
        client: Any
        with redis.Redis.from_url(url) as client:
            yield lambda: sum(int(client.execute_command(*each)) for each in peer.remaining)

    def _client(self, place: str) -> Any:
        return redis.Redis.from_url(self._url(place))


class Grounds:
    """Both servers, each started when a peer needs it first; a context, which ends them."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._stack = ExitStack()
        self._grounds: dict[Engine, Ground] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def of(self, peer: Peer) -> Ground:
        if peer.engine not in self._grounds:
            self._grounds[peer.engine] = self._start(peer.engine)
        return self._grounds[peer.engine]

    def describe(self) -> list[str]:
        return [ground.describe() for ground in self._grounds.values()]

    def _start(self, engine: Engine) -> Ground:
        if engine is Engine.POSTGRESQL:
            server = PostgresServer(durable=True, settings=POSTGRES_SETTINGS)
            return PostgresGround(self._programs, self._stack.enter_context(server))
        memory = RedisServer(REDIS_SETTINGS)
        return RedisGround(self._programs, self._stack.enter_context(memory))
