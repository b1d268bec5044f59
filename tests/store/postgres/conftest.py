"""A store in an empty database of a real server, connections, and an administrator to disturb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from fencepost.clock import Clock, SystemClock
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.url import parse
from fencepost.store.postgres.store import PostgresStore

Connect = Callable[..., Connections]
Admin = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def clock() -> Clock:
    """The server's own; a file whose tests move the time has a FakeClock instead."""
    return SystemClock()


@pytest.fixture
def store(postgres_url: str, clock: Clock) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, clock=clock)
    store.migrate()
    yield store
    store.close()


@pytest.fixture
def admin(postgres_url: str) -> Iterator[Admin]:
    """A connection of its own, with a table to write to."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table public.note (text text)")
        yield connection


@pytest.fixture
def connect(postgres_url: str, admin: Admin) -> Iterator[Connect]:
    """A function that makes Connections, which are closed in the end."""
    made: list[Connections] = []

    def make(
        url: str = postgres_url, *, clock: Clock | None = None, patience: float = 20.0
    ) -> Connections:
        made.append(Connections(parse(url), clock=clock or SystemClock(), patience=patience))
        return made[-1]

    yield make
    for connections in made:
        connections.close()


@pytest.fixture
def connections(connect: Connect) -> Connections:
    return connect()
