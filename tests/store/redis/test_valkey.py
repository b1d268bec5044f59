"""The Redis store on Valkey: a part of the exam, and how it names the server.

For all tests on Valkey, FENCEPOST_TEST_REDIS_PROGRAM names its program.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.redis import RedisServer
from tests.store.redis.rules import admit

from conformance import (  # noqa: F401 - they are run
    TestClaiming,
    TestDependencies,
    TestFencing,
    TestKeys,
    TestSettling,
    TestWaking,
)
from conformance.fixtures import colour, h, is_durable  # noqa: F401 - they are used by name
from conformance.harness import MakeStore
from fencepost.cli.demo.processes import programs
from fencepost.store.interface.store import Store
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Return the URL of a Valkey server."""
    for program in programs():
        if program.name == "valkey-server":
            with RedisServer(program=program) as server:
                yield server.url
            return
    pytest.skip("no Valkey: on x86-64 Linux `make setup` installs one")


@pytest.fixture(scope="module")
def runtime_url(redis_url: str) -> str:
    return admit(redis_url, "fencepost", "{fencepost-test-*")


@pytest.fixture
def make_store(runtime_url: str, redis_prefix: str) -> MakeStore:
    def make(clock: FakeClock) -> Store:
        return RedisStore(runtime_url, clock=clock, prefix=redis_prefix)

    return make


def test_doctor_names_it(redis_url: str, redis_prefix: str) -> None:
    store = RedisStore(redis_url, prefix=redis_prefix)
    found = {each.code: each.text for each in store.run(store.overview.inspect())}
    store.close()
    assert found["redis_version"].startswith("Valkey ")
