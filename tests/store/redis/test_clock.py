"""The server's clock judges every lease, however wrong that of a client is.

Not in the conformance suite, which drives the clock itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from conformance.harness import Colour, Harness
from fencepost.clock import SystemClock
from fencepost.core.job.lifecycle import State
from fencepost.store.redis.store import RedisStore

HOUR_US = 3_600_000_000


class WrongClock(SystemClock):
    """A machine's clock that is off by some hours."""

    def __init__(self, hours: int) -> None:
        super().__init__()
        self._off = hours * HOUR_US

    def now_us(self) -> int:
        return super().now_us() + self._off

    def now(self) -> datetime:
        return super().now() + timedelta(microseconds=self._off)


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_client_whose_clock_is_wrong_gives_and_takes_no_lease_by_it(
    redis_url: str, redis_prefix: str, hours: int
) -> None:
    h = Harness(
        lambda _: RedisStore(redis_url, clock=WrongClock(hours), prefix=redis_prefix),
        colour=Colour.SYNC,
        is_durable=True,
    )
    right = RedisStore(redis_url, prefix=redis_prefix)
    job_id = h.submit()
    claimed = h.take(lease_ttl=60.0)
    left = claimed.lease.expires_at - datetime.now(UTC)
    assert timedelta(seconds=30) < left <= timedelta(seconds=60)
    assert h.run(h.store.upkeep.recover(10)) == []
    assert right.run(right.upkeep.recover(10)) == []
    h.succeed(claimed)
    assert h.state(job_id) is State.COMPLETED
    right.close()
    h.close()
