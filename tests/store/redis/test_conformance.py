"""The Redis store passes the exam; with FENCEPOST_TEST_FULL=1 all of it, without a fifth.

It does so as a user who has exactly the rights of the runtime role in docs/redis.md.
"""

from __future__ import annotations

import pytest

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import MakeStore
from fencepost.store.interface.store import Store
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def make_store(runtime_url: str, redis_prefix: str) -> MakeStore:
    def make(clock: FakeClock) -> Store:
        return RedisStore(runtime_url, clock=clock, prefix=redis_prefix)

    return make
