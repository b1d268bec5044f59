"""The PostgreSQL store passes the exam, in both colours, and on every server that is at hand."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from tests.servers.fixtures import Databases, FreshPostgres, postgres_sources
from tests.thoroughness import IS_FULL

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import Colour, MakeStore
from fencepost.store.interface.store import Store
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock


def settings() -> list[tuple[str, Colour]]:
    """Every server, and every colour, at least once: colours share all plans.

    With FENCEPOST_TEST_FULL=1, each colour on each server; without, of a second server and colour
    a fifth of the tests (conftest.py).
    """
    servers, colours = postgres_sources(), list(Colour)
    if IS_FULL:
        return [(server, colour) for server in servers for colour in colours]
    count = max(len(servers), len(colours))
    return list(islice(zip(cycle(servers), cycle(colours), strict=False), count))


@pytest.fixture(params=settings(), ids="-".join)
def setting(request: pytest.FixtureRequest) -> tuple[str, Colour]:
    source, colour = request.param
    return source, Colour(colour)


@pytest.fixture  # type: ignore[no-redef]  # in place of the suite's own
def colour(setting: tuple[str, Colour]) -> Colour:
    return setting[1]


@pytest.fixture
def source(setting: tuple[str, Colour]) -> str:
    return setting[0]


@pytest.fixture
def make_store(
    source: str, fresh_postgres: FreshPostgres, postgres_databases: Databases
) -> MakeStore:
    url = fresh_postgres(source)
    is_migrated = postgres_databases.has_schema(source)  # to ask the store takes a connection

    def make(clock: FakeClock) -> Store:
        store = PostgresStore(url, clock=clock)
        if not is_migrated:
            store.migrate()
        return store

    return make
