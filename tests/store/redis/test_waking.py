"""A worker of another process is woken, which the conformance suite asks of one store object."""

from __future__ import annotations

from contextlib import closing

from conformance.harness import job
from fencepost.store.interface.store import Topic
from fencepost.store.redis.store import RedisStore


def test_a_listener_of_another_process_hears_of_a_new_job(
    redis_url: str, redis_prefix: str
) -> None:
    with (
        closing(RedisStore(redis_url, prefix=redis_prefix)) as here,
        closing(RedisStore(redis_url, prefix=redis_prefix)) as there,
    ):
        listener = there.listen(Topic.READY)
        listener.wait(0.05)  # to subscribe wakes, too
        here.run(here.queue.enqueue([job()]))
        assert listener.wait(5.0)
