"""A submission to several partitions names jobs that are there, whoever has stored them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.store.redis.partitions.test_outbox import A, B, World

from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import Duplicate, Enqueued
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions import submit
from fencepost.store.redis.partitions.outbox.delivery import store_parts
from fencepost.store.redis.partitions.store import PartitionedStore

KEYED = NewJob(type="t-a", queue=A, key=Key("k"))


@pytest.fixture
def world(runtime_url: str, redis_prefix: str) -> Iterator[World]:
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"
    made = World(lambda clock: PartitionedStore(url, clock=clock, prefix=redis_prefix))
    yield made
    made.store.close()


def test_a_key_that_is_held_is_told_though_another_process_has_stored_the_part(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named a job that had never been stored."""
    existing = world.submit(A, key=Key("k"))

    def outrun(*args: Any) -> Plan[Any]:
        world.deliver()
        return (yield from store_parts(*args))

    monkeypatch.setattr(submit, "store_parts", outrun)
    new = [KEYED, NewJob(type="t-b", queue=B), NewJob(type="t-a", queue=A)]
    held, *others = world.run(world.store.queue.enqueue(new))
    assert held == Duplicate(existing, "t-a", "k", State.SCHEDULED, is_rejected=False)
    assert [type(reply) for reply in others] == [Enqueued, Enqueued]
    assert [world.state(reply.job_id) for reply in others] == [State.SCHEDULED] * 2


@pytest.mark.parametrize("is_keyed", [True, False])
def test_which_job_has_a_key_is_unknown_until_a_partition_that_is_away_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    world.submit(A)
    world.submit(B)

    def fail(*_: Any) -> Plan[Any]:
        raise StoreUnavailableError("away")

    new = [KEYED if is_keyed else NewJob(type="t-a", queue=A), NewJob(type="t-b", queue=B)]
    with monkeypatch.context() as away:
        for name in ("store_parts", "deliver_quietly"):
            away.setattr(submit, name, fail if name == "store_parts" else lambda *_: iter(()))
        away.setattr(submit, "fates", fail)
        if is_keyed:
            with pytest.raises(UnknownOutcomeError, match="repeat it with the same keys"):
                world.run(world.store.queue.enqueue(new))
        else:
            replies = world.run(world.store.queue.enqueue(new))
    world.deliver()
    if is_keyed:
        replies = world.run(world.store.queue.enqueue(new))
        assert [type(reply) for reply in replies] == [Duplicate, Enqueued]
    assert [world.state(reply.job_id) for reply in replies] == [State.SCHEDULED] * 2
