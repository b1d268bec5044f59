"""What is unknown is safe to repeat, and what is called not done was not done.

Not in the conformance suite: the connection is cut at a script, which other engines do not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from tests.servers.redis import RedisServer
from tests.store.redis.cutting import RedisProxy
from tests.store.redis.meddling import after_script, before_commit

from conformance.harness import TTL, Colour, Harness, job
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.errors import StoreError, UnknownOutcomeError
from fencepost.store.interface.queue import AlreadySettled, Duplicate, Enqueued, Settled
from fencepost.store.interface.store import Store
from fencepost.store.redis.store import RedisStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def proxy(redis_url: str) -> Iterator[RedisProxy]:
    with RedisProxy(redis_url) as opened:
        yield opened


@pytest.fixture(params=list(Colour))
def h(
    request: pytest.FixtureRequest, redis_url: str, redis_prefix: str, proxy: RedisProxy
) -> Iterator[Harness]:
    """Return a store that reaches its server through a wire that can be cut."""

    def make(clock: FakeClock) -> Store:
        return RedisStore(proxy.url, clock=clock, prefix=redis_prefix)

    harness = Harness(make, colour=request.param, is_durable=True)
    yield harness
    harness.close()


@pytest.mark.parametrize("is_heard", [False, True])
def test_a_submission_without_an_answer_is_repeated_by_its_key(
    h: Harness, proxy: RedisProxy, is_heard: bool
) -> None:
    keyed = job(key=Key("k"))
    h.enqueue(job("warm"))  # so that the server knows the script
    proxy.cut_next_write(is_heard=is_heard)
    with pytest.raises(UnknownOutcomeError):
        h.enqueue(keyed)
    [reply] = h.enqueue(keyed)
    assert isinstance(reply, Duplicate if is_heard else Enqueued)
    assert [each.id for each in h.find(type="mail")] == [reply.job_id]


@pytest.mark.parametrize("is_heard", [False, True])
def test_a_settlement_without_an_answer_is_repeated(
    h: Harness, proxy: RedisProxy, is_heard: bool
) -> None:
    job_id = h.submit()
    claimed = h.take()
    proxy.cut_next_write(is_heard=is_heard)
    with pytest.raises(UnknownOutcomeError):
        h.succeed(claimed)
    again = AlreadySettled(job_id, State.COMPLETED)
    assert h.succeed(claimed) == (again if is_heard else Settled(job_id, "mail", State.COMPLETED))
    assert len(h.attempts(job_id)) == 1


def test_a_claim_without_an_answer_is_recovered_when_its_lease_ends(
    h: Harness, proxy: RedisProxy
) -> None:
    job_id = h.submit()
    proxy.cut_next_write(is_heard=True)
    with pytest.raises(UnknownOutcomeError):
        h.claim()
    assert h.state(job_id) is State.RUNNING
    h.advance(timedelta(seconds=TTL))
    [recovered] = h.run(h.store.upkeep.recover(10))
    assert (recovered.job_id, recovered.state) == (job_id, State.RETRYING)


def test_a_wake_up_that_is_lost_is_no_failure_of_what_was_done(
    h: Harness, proxy: RedisProxy
) -> None:
    """A claim that has ended a job says so in a call of its own, after all was done: without the
    reply, the jobs that it leased would wait for the end of their leases."""
    dying = h.submit(policy=Policy(max_attempts=1))
    h.take()
    h.submit()
    h.succeed(h.take())  # so that the server knows the scripts
    h.advance(timedelta(seconds=TTL))
    next_id = h.submit()
    proxy.cut_request_with("PUBLISH", is_heard=False)
    claim = h.claim()
    assert not proxy.is_about_to_cut
    assert [(each.job_id, each.state) for each in claim.recovered] == [(dying, State.DEAD_LETTER)]
    assert [each.id for each in claim.jobs] == [next_id]


def test_scripts_that_the_server_was_told_to_forget_are_loaded_again(
    h: Harness, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as admin:
        job_id = h.submit()
        admin.script_flush()
        claimed = h.take()
        admin.script_flush()
        h.succeed(claimed)
    assert h.state(job_id) is State.COMPLETED


@pytest.fixture
def mortal(redis_url: str) -> Iterator[RedisServer]:
    """Return a server that may be killed; where there is none, the other fixture skips the test."""
    with RedisServer({"save": "", "appendonly": "yes", "appendfsync": "always"}) as server:
        yield server


def test_what_was_done_before_the_server_died_is_not_called_undone(mortal: RedisServer) -> None:
    """It dies after a commit; then after a claim, before the policy of its job was read."""
    store = RedisStore(mortal.url)
    after_script(store, "commit", mortal.crash)
    [reply] = store.run(store.queue.enqueue([job(policy=Policy(max_attempts=7))]))
    assert isinstance(reply, Enqueued)
    store.close()
    mortal.start()
    harness = Harness(
        lambda _: RedisStore(mortal.url, patience=2.0), colour=Colour.SYNC, is_durable=True
    )
    assert isinstance(harness.store, RedisStore)
    after_script(harness.store, "claim", mortal.crash)
    with pytest.raises(UnknownOutcomeError):
        harness.claim()
    mortal.start()
    assert harness.state(reply.job_id) is State.RUNNING
    harness.close()


def test_a_server_that_dies_in_a_chore_is_no_reason_to_leave_the_chore_alone(
    mortal: RedisServer,
) -> None:
    """Leases that ran out would wait for seconds, and longer each time, after it is back."""
    h = Harness(
        lambda clock: RedisStore(mortal.url, clock=clock), colour=Colour.SYNC, is_durable=True
    )
    job_id = h.submit()
    h.take()
    h.advance(timedelta(seconds=TTL))
    assert isinstance(h.store, RedisStore)
    before_commit(h.store, mortal.crash)
    with pytest.raises(StoreError):
        h.claim()
    mortal.start()
    assert [each.job_id for each in h.claim().recovered] == [job_id]
    h.close()
