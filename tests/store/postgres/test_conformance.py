"""The PostgreSQL store passes the exam, in both colours, on every server that is at hand."""

from __future__ import annotations

import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources

from fencepost.store.postgres.store import PostgresStore
from fencepost.store.protocol import Store
from fencepost.testing.clock import FakeClock
from fencepost.testing.conformance import *  # noqa: F403 - this is how a store author does it
from fencepost.testing.conformance.harness import MakeStore


@pytest.fixture(params=postgres_sources())
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_store(source: str, fresh_postgres: FreshPostgres) -> MakeStore:
    url = fresh_postgres(source)

    def make(clock: FakeClock) -> Store:
        store = PostgresStore(url, clock=clock)
        store.migrate()
        return store

    return make
