"""Replays that die between the partitions (Redis with partition=queue only)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import Colour, Harness
from conformance.replays import dead_letters, kept, made, start, step
from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import State
from fencepost.core.job.replays import BulkReplay
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions import control
from fencepost.store.redis.partitions.hub import Hub
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def h(runtime_url: str, redis_prefix: str) -> Iterator[Harness]:
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"

    def make(clock: FakeClock) -> Store:
        return PartitionedStore(url, clock=clock, prefix=redis_prefix)

    harness = Harness(make, colour=Colour.SYNC, is_durable=True)
    yield harness
    harness.close()


_keep = control._keep


def dies_before_it_counts(hub: Hub, bulk: BulkReplay) -> Plan[Any]:
    """Keep a note, and nothing else."""
    if bulk.replayed:
        raise StoreUnavailableError("the process is dead")
    return (yield from _keep(hub, bulk))


@pytest.mark.parametrize("patch", [None, Body(b'{"a":2}')])
def test_a_letter_that_is_pruned_before_it_is_counted_counts_as_replayed(
    h: Harness, patch: Body | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new job is there, whatever has become of the letter."""
    dead_letters(h, 1, payload=Body(b'{"a":1}'))
    start(h, 1, patch=patch)
    with monkeypatch.context() as dying:
        dying.setattr(control, "_keep", dies_before_it_counts)
        with pytest.raises(StoreUnavailableError):
            step(h)
    assert len(made(h)) == 1
    assert (len(kept(h).pending), kept(h).replayed) == (1, 0)
    h.advance(timedelta(hours=1))
    h.run(h.store.upkeep.prune(PruneRequest(limit=10, keep={State.DEAD_LETTER: 1.0})))
    step(h)
    over = kept(h)
    assert (over.replayed, over.skipped, len(over.open), over.pending) == (1, {}, 1, ())
