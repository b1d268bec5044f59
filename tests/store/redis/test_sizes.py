"""More than a script can hand to one command: 8,000 words.

Not in the conformance suite: to get there by jobs alone would take too long.
"""

from __future__ import annotations

import redis

from conformance.harness import Harness
from fencepost.core.job.lifecycle import State

MANY = 9_000


def test_any_number_of_slots_can_be_noted_as_free(
    h: Harness, redis_url: str, redis_prefix: str
) -> None:
    """A move notes the concurrency key of every job that it brings."""
    first, second = h.submit_many(2, type="keyed", concurrency_key="k")
    with redis.Redis.from_url(redis_url) as admin:
        names = [f"keyed\n{number}" for number in range(MANY)]
        admin.sadd(f"{redis_prefix}freed", *names)
        for _ in range(MANY // 500):
            h.run(h.store.upkeep.promote(10))
            if not admin.exists(f"{redis_prefix}freed"):
                break
        assert not admin.exists(f"{redis_prefix}freed")
    assert [h.state(first), h.state(second)] == [State.SCHEDULED, State.PENDING]


def test_a_batch_of_thousands_is_one_commit(h: Harness) -> None:
    ids = h.submit_many(4_100)
    h.run(h.store.control.cancel(ids))
    assert h.run(h.store.overview.queues())[0].counts == {State.CANCELLED: 4_100}
