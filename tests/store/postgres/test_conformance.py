"""The PostgreSQL store passes the exam, in both colours, and on every server that is at hand."""

from __future__ import annotations

import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources

from fencepost.store.postgres.store import PostgresStore
from fencepost.store.protocol import Store
from fencepost.testing.clock import FakeClock
from fencepost.testing.conformance import *  # noqa: F403 - this is how a store author does it
from fencepost.testing.conformance.harness import Colour, MakeStore


def settings() -> list[tuple[str, Colour]]:
    """Both colours on the first server, one on each other: they share every plan."""
    first, *others = postgres_sources()
    return [*((first, colour) for colour in Colour), *((each, Colour.ASYNC) for each in others)]


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
def make_store(source: str, fresh_postgres: FreshPostgres) -> MakeStore:
    url = fresh_postgres(source)

    def make(clock: FakeClock) -> Store:
        store = PostgresStore(url, clock=clock)
        store.migrate()
        return store

    return make
