"""Redis for the lab: a server, and a part of its keys that may be deleted."""

from __future__ import annotations

import os
from contextlib import ExitStack
from uuid import uuid4

import redis
from tests.servers.redis import RedisServer

DELETED_AT_ONCE = 1_000


def server_url(stack: ExitStack) -> str:
    """Return the URL of the server that FENCEPOST_TEST_REDIS names, or of one of our own."""
    given = os.environ.get("FENCEPOST_TEST_REDIS")
    return given or stack.enter_context(RedisServer()).url


def own_prefix() -> str:
    """Return a prefix that nobody else uses, under which the tests may write."""
    return f"{{fencepost-test-{uuid4().hex}}}:"


def wipe(url: str, prefix: str) -> None:
    """Delete every key below a prefix."""
    with redis.Redis.from_url(url) as client:
        keys = list(client.scan_iter(match=f"{prefix}*", count=DELETED_AT_ONCE))
        for start in range(0, len(keys), DELETED_AT_ONCE):
            client.unlink(*keys[start : start + DELETED_AT_ONCE])
