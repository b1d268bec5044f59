"""As whom the exam is taken."""

from __future__ import annotations

import os

import pytest
from tests.store.redis.rules import admit


@pytest.fixture(scope="session")
def runtime_url(redis_url: str) -> str:
    """Return the URL of a user who has exactly the rights that the documentation names."""
    if os.environ.get("FENCEPOST_TEST_REDIS"):
        return redis_url  # nobody's server gets users from us
    return admit(redis_url, "fencepost", "{fencepost-test-*")
