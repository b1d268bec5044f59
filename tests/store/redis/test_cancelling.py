"""A cancelled wait for the server ends, wherever it is: the driver swallows some cancellations."""

from __future__ import annotations

import asyncio

import pytest

from fencepost import App
from fencepost.store.redis.store import RedisStore


async def test_a_cancelled_operation_is_cancelled(redis_url: str, redis_prefix: str) -> None:
    """At any step of it; what the server was asked to do may have been done."""
    store = RedisStore(redis_url, prefix=redis_prefix)
    ended = 0
    for steps in range(60):
        task = asyncio.create_task(store.run_async(store.cluster.lead("t", "w", 5.0)))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not task.cancel():
            ended += 1
            continue
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended < 60
    store.close()


def test_a_worker_that_is_done_stops(redis_url: str, redis_prefix: str) -> None:
    """Its maintenance waits for the server when it is cancelled."""
    app = App(f"{redis_url}?prefix={redis_prefix}")

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    jobs = [add.submit(a=number, b=1) for number in range(20)]
    app.worker().run(until_idle=True)
    assert [job.result(timeout=10) for job in jobs] == list(range(1, 21))
    app.close()
