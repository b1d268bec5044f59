"""Connections to an empty database of a real server, and an administrator to disturb them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

import psycopg
import pytest
from tests.servers.fixtures import postgres_sources
from tests.thoroughness import IS_FULL

from fencepost.clock import Clock, SystemClock
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.url import parse

Connect = Callable[..., Connections]
Admin = psycopg.Connection[tuple[Any, ...]]


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give two of three tests of the exam to the first server alone: the others take as long again.

    Which, the test's name says, so that all processes of a run agree.
    """
    if IS_FULL:
        return
    dropped = [item for item in items if _is_repeated(item) and crc32(item.name.encode()) % 3]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _is_repeated(item: pytest.Item) -> bool:
    """Tell whether a test of the exam runs on the first server too."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    source = params.get("setting", (None,))[0]
    is_exam = item.path.name == "test_conformance.py" and item.path.parent.name == "postgres"
    return is_exam and source in postgres_sources()[1:]
