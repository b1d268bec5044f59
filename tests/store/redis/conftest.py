"""Servers that a module of tests has to itself, a harness, and a user with documented rights."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.servers.redis import RedisServer, or_skip
from tests.servers.redis_groups import RedisCluster
from tests.store.redis.rules import admit

from conformance.harness import Colour, Harness
from fencepost.store.interface.store import Store
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


@pytest.fixture(scope="session")
def runtime_url(redis_url: str) -> str:
    """Return the URL of a user who has exactly the rights that the documentation names."""
    if os.environ.get("FENCEPOST_TEST_REDIS"):
        return redis_url  # nobody's server gets users from us
    return admit(redis_url, "fencepost", "{fencepost-test-*")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server whose settings the tests change."""
    with or_skip(RedisServer) as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with or_skip(RedisCluster) as made:
        yield made


@pytest.fixture
def h(redis_url: str, redis_prefix: str) -> Iterator[Harness]:
    def make(clock: FakeClock) -> Store:
        return RedisStore(redis_url, clock=clock, prefix=redis_prefix)

    harness = Harness(make, colour=Colour.SYNC, is_durable=True)
    yield harness
    harness.close()
