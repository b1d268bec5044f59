"""A worker that blocks its loop for a claim: what has ended is settled while the server answers.

Only this engine awaits its answers on the event loop, and hands them to a thread while that is
blocked; so this is not in the conformance suite.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from conformance.harness import job
from fencepost.core.job.job import Body, ClaimedJob
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.errors import StoreUnavailableError
from fencepost.generators import begun
from fencepost.store.interface.queue import Claim, ClaimRequest, Settled, SettleReply
from fencepost.store.redis.store import RedisStore


@pytest.fixture
def store(redis_url: str, redis_prefix: str) -> Iterator[RedisStore]:
    made = RedisStore(redis_url, prefix=redis_prefix)
    yield made
    made.close()


def claim(store: RedisStore, meanwhile: Callable[[], None] | None = None) -> Claim:
    operation = store.queue.claim(ClaimRequest(worker="w", limit=1))
    return store.run(replace(operation, meanwhile=meanwhile))


def settling(store: RedisStore, claimed: ClaimedJob) -> Coroutine[Any, Any, list[SettleReply]]:
    outcome = Succeeded(Body(b"1", claimed.payload.encoding))
    decision = decide(claimed, outcome, store.clock.rng)
    settlement = Settlement(claimed.id, claimed.lease.token, decision)
    return store.run_async(store.queue.settle([settlement]))


async def test_what_is_posted_before_a_block_is_done_by_a_thread(store: RedisStore) -> None:
    """Its answer needs no turn of the loop, which the caller goes on blocking."""
    before = set(threading.enumerate())
    store.run(store.queue.enqueue([job(), job()]))
    (first,) = claim(store).jobs
    posted: list[Coroutine[Any, Any, list[SettleReply]]] = []
    (second,) = claim(store, lambda: posted.append(begun(settling(store, first)))).jobs
    assert first.id != second.id
    (helper,) = set(threading.enumerate()) - before
    store._helper.shutdown()  # waits for it: the loop has not turned yet
    assert not helper.is_alive()
    (found,) = store.run(store.reader.get([first.id]))
    assert found is not None
    assert found.state.is_terminal
    assert [type(reply) for reply in await posted[0]] == [Settled]


async def test_what_is_awaited_after_a_block_is_awaited_on_the_loop(store: RedisStore) -> None:
    before = set(threading.enumerate())
    store.run(store.queue.enqueue([job()]))
    (claimed,) = claim(store, lambda: None).jobs
    assert [type(reply) for reply in await settling(store, claimed)] == [Settled]
    assert set(threading.enumerate()) <= before


def test_it_is_called_once_also_if_the_script_is_sent_again(
    store: RedisStore, redis_url: str
) -> None:
    store.run(store.queue.enqueue([job()]))
    calls: list[None] = []
    with redis.Redis.from_url(redis_url) as client:
        client.script_flush()
    assert len(claim(store, lambda: calls.append(None)).jobs) == 1
    assert len(calls) == 1


def test_it_is_not_called_if_nothing_could_be_sent(store: RedisStore) -> None:
    """The caller is not blocked then, and the settlement is written in its own time."""
    store.close()
    calls: list[None] = []
    with pytest.raises(StoreUnavailableError):
        claim(store, lambda: calls.append(None))
    assert not calls
