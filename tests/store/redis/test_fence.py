"""The version of a lease never goes back, whatever the clock does and the server forgets (INV-3).

Not in the conformance suite: it takes a server that can be made to forget.
"""

from __future__ import annotations

from datetime import timedelta

import redis

from conformance.harness import Harness
from fencepost.testing.clock import START


def test_a_version_rises_though_the_clock_goes_back(h: Harness) -> None:
    h.submit()
    first = h.take()
    h.clock.set_back(5.0)
    assert h.now < START
    h.release(first)
    assert h.take().lease.version == first.lease.version + 1


def test_a_version_rises_though_the_server_forgot_the_claim_before(
    h: Harness, redis_url: str, redis_prefix: str
) -> None:
    """A failover, or a power cut without `appendfsync always`, takes back the last moments."""
    h.submit()
    with redis.Redis.from_url(redis_url) as admin:
        keys = admin.keys(f"{redis_prefix}*")
        before = {key: admin.dump(key) for key in keys}
        first = h.take()
        admin.delete(*admin.keys(f"{redis_prefix}*"))
        for key, value in before.items():
            admin.restore(key, 0, value)
    h.advance(timedelta(milliseconds=1))
    again = h.take()
    assert again.id == first.id
    assert again.lease.version > first.lease.version
