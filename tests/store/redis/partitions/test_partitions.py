"""Where jobs are, which ids they have, and what is refused (Redis with partition=queue only)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.support import working_in_thread

from fencepost import App, Retry
from fencepost.core.encryption import EncryptionKey, KeyRing
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import AttemptOutcome, Body, NewJob
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.errors import (
    ConfigurationError,
    InvalidJobError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.open import open_store
from fencepost.store.plan import Operation
from fencepost.store.redis.engine.address import read_address, without_partition
from fencepost.store.redis.partitions.hub import PartitionCall
from fencepost.store.redis.partitions.numbers import (
    PARTITIONS,
    gathered,
    gathering,
    is_stamped,
    partition_of,
    partition_of_id,
    partition_of_token,
    prefix_of,
    stamped,
    token_of,
)
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.store.redis.partitions.views.pages import pack_positions, unpack_positions
from fencepost.store.redis.store import RedisStore

QUEUES = [f"q{number}" for number in range(8)]


@pytest.fixture
def url(redis_url: str, redis_prefix: str) -> str:
    return f"{redis_url}?prefix={redis_prefix}&partition=queue"


@pytest.fixture
def store(url: str) -> Iterator[PartitionedStore]:
    made = PartitionedStore(url)
    yield made
    made.close()


def enqueue(store: PartitionedStore, *jobs: NewJob) -> list[str]:
    return [reply.job_id for reply in store.run(store.queue.enqueue(jobs))]


# Names.


@given(st.binary(min_size=16, max_size=16), st.integers(0, PARTITIONS - 1))
def test_an_id_is_a_random_uuid_that_names_its_partition(raw: bytes, number: int) -> None:
    """S1-1: version and variant are those of a UUID of version 4."""
    id_ = stamped(uuid.UUID(bytes=raw, version=4).bytes, number)
    own = uuid.UUID(bytes=id_)
    assert (own.version, own.variant) == (4, uuid.RFC_4122)
    assert partition_of_id(str(own)) == number
    assert is_stamped(id_, number)
    assert partition_of_id(gathering(str(own))) == number
    assert gathered(gathering(str(own))) == str(own) != gathering(str(own))


def test_the_partition_of_a_queue_does_not_change() -> None:
    """Jobs that are stored are found by it."""
    assert [partition_of(name) for name in ("default", "mail", "red", "ä")] == [
        partition_of(name) for name in ("default", "mail", "red", "ä")
    ]
    assert (partition_of("mail"), partition_of("red"), partition_of("image")) == (8, 35, 6)


def test_prefixes_and_tokens_name_partitions() -> None:
    assert prefix_of("{shop}:", 7) == "{shop.7}:"
    assert prefix_of("a{shop}b:", 7) == "a{shop.7}b:"
    assert prefix_of("shop:", 7) == "shop:7:"
    assert partition_of_token(f"1f.{token_of('secret', 9)}") == 9
    for token in ("", "1f.secret", "1f.secret.9", "1f.secret.ff", "1f.secret. 9"):
        assert partition_of_token(token) is None


@given(st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 1 << 53)))
def test_a_position_holds_those_of_all_partitions(positions: dict[int, int]) -> None:
    packed = pack_positions(positions)
    assert unpack_positions(packed) == positions
    assert len(str(packed)) <= 1_500


@given(st.integers(0, 10**40))
def test_a_position_that_nobody_gave_out_does_no_harm(packed: int) -> None:
    unpack_positions(packed)


# Opening.


def test_the_url_opens_it(url: str) -> None:
    made = open_store(url)
    assert isinstance(made, PartitionedStore)
    made.close()
    plain = open_store(without_partition(url))
    assert isinstance(plain, RedisStore)
    plain.close()
    assert without_partition("redis://h?partition=queue") == "redis://h"


def test_another_partition_than_queue_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown partition 'type'; there is: queue"):
        read_address("redis://localhost?partition=type")


def test_without_it_nothing_is_spread(redis_url: str, redis_prefix: str) -> None:
    plain = RedisStore(redis_url, prefix=redis_prefix)
    (reply,) = plain.run(plain.queue.enqueue([NewJob(type="t", queue="red")]))
    assert plain.run(plain.reader.locate([reply.job_id])) == ["red"]
    assert not hasattr(plain, "_hub")
    plain.close()


# What is refused.


def test_a_type_with_keys_is_in_one_partition(store: PartitionedStore) -> None:
    """One job a key holds over all queues: where it could not be judged, it is refused."""
    keyed = NewJob(type="t", queue="red", key=Key("k", None))
    (first,) = enqueue(store, keyed)
    elsewhere = NewJob(type="t", queue="mail", key=Key("k", None))
    with pytest.raises(InvalidJobError, match="queues of one partition"):
        enqueue(store, elsewhere)
    assert enqueue(store, keyed) == [first]
    enqueue(store, NewJob(type="t", queue="mail"))
    enqueue(store, NewJob(type="other", queue="mail", key=Key("k", None)))
    assert store.run(store.reader.count(JobFilter(type="t"))) == 2


def test_our_own_queues_are_left_alone(store: PartitionedStore) -> None:
    with pytest.raises(ConfigurationError, match="leave it alone"):
        store.run(store.settings.pause(Scope.QUEUE, "fencepost.outbox"))


# What holds in all partitions.


def test_a_partition_that_comes_later_has_the_settings_of_all(url: str) -> None:
    first, second = PartitionedStore(url), PartitionedStore(url)
    enqueue(first, NewJob(type="paused", queue="red"))
    first.run(first.settings.pause(Scope.TYPE, "paused"))
    first.run(first.settings.limit_types({"slow": TypeLimits(rate=Rate(1, 60.0))}))
    for queue in QUEUES:
        jobs = [NewJob(type="paused", queue=queue), *[NewJob(type="slow", queue=queue)] * 2]
        enqueue(second, *jobs)
    request = ClaimRequest(worker="w", limit=100)
    claimed = second.run(second.queue.claim(request)).jobs
    numbers = {partition_of(queue) for queue in QUEUES}
    assert {job.type for job in claimed} == {"slow"}
    assert len(claimed) == len(numbers)  # a rate counts in each partition, as the page says
    second.run(second.settings.resume(Scope.TYPE, "paused"))
    types = {job.type for job in first.run(first.queue.claim(request)).jobs}
    assert types == {"paused"}
    first.close()
    second.close()


def test_jobs_are_not_accepted_in_partitions_that_come_later(url: str) -> None:
    store = PartitionedStore(url)
    store.run(store.transfer.accept_jobs(False))
    for queue in QUEUES[:2]:
        with pytest.raises(StoreUnavailableError):
            enqueue(store, NewJob(type="t", queue=queue))
    store.run(store.transfer.accept_jobs(True))
    enqueue(store, *(NewJob(type="t", queue=queue) for queue in QUEUES))
    assert store.run(store.reader.count(JobFilter())) == len(QUEUES)
    store.close()


def test_pages_hold_every_job_once(store: PartitionedStore) -> None:
    made = [enqueue(store, NewJob(type="t", queue=QUEUES[n % 8]))[0] for n in range(30)]
    found: list[str] = []
    after = None
    while True:
        page = store.run(store.reader.find(JobFilter(), PageRequest(7, after)))
        found += [job.id for job in page.jobs]
        enqueue(store, NewJob(type="late", queue=QUEUES[0]))
        if (after := page.next) is None:
            break
    assert found == list(reversed(made))


def test_an_app_pages_by_cursors(url: str) -> None:
    app = App(url)

    @app.task(name="t")
    def task() -> None: ...

    for queue in QUEUES:
        task.using(queue=queue).submit()
    first = app.jobs.find(limit=5)
    second = app.jobs.find(limit=5, after=first.next)
    assert len({job.id for job in (*first.jobs, *second.jobs)}) == len(QUEUES)
    with pytest.raises(ConfigurationError, match="not a cursor"):
        app.jobs.find(after="ajE6NQ")
    app.close()


# A partition that is not available.


class Sick(PartitionedStore):
    """Of which one partition is not available."""

    number = -2

    def call(self, call: PartitionCall) -> Any:
        if getattr(call.store, "number", None) == self.number:
            raise StoreUnavailableError("away")
        return super().call(call)


def test_claims_go_on_without_it(url: str) -> None:
    store = Sick(url)
    enqueue(store, NewJob(type="t", queue="red"), NewJob(type="t", queue="mail"))
    store.number = partition_of("red")
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5)))
    assert [job.queue for job in claim.jobs] == ["mail"]
    assert claim.wait is not None
    with pytest.raises(StoreUnavailableError):
        store.run(store.queue.claim(ClaimRequest(worker="w", limit=5, queues={"red": 1})))
    store.close()


def test_a_claim_that_lacks_a_reply_says_so(url: str) -> None:
    """C41: jobs may be leased there of which nobody has heard."""
    store = Sick(url)
    enqueue(store, NewJob(type="t", queue="red"), NewJob(type="t", queue="mail"))
    asked = ClaimRequest(worker="w", limit=1)
    assert not store.run(store.queue.claim(asked)).is_unsure
    store.number = partition_of("red")
    assert store.run(store.queue.claim(asked)).is_unsure
    store.close()


def test_what_was_leased_in_a_claim_that_it_did_not_answer_runs_soon(url: str) -> None:
    """C41: long before those leases end, and uncounted; the claim of the others has succeeded."""
    store = Sick(url)
    app = App(store=store, retry=Retry.none())
    noop = app.task(name="noop")(lambda: None)
    jobs = [noop.using(queue=queue).submit() for queue in ("red", "mail")]
    lost: list[str] = []

    def lose(call: PartitionCall) -> Any:
        reply = super(Sick, store).call(call)
        if call.operation.name == "claim" and not lost:
            lost.extend(job.id for job in reply.jobs if job.queue == "red")
            if lost:
                raise UnknownOutcomeError("the connection was lost")
        return reply

    store.call = lose  # type: ignore[method-assign]
    with working_in_thread(app):
        assert [job.result(timeout=20) for job in jobs] == [None] * 2
    assert lost == [jobs[0].id]
    assert [each.outcome for each in jobs[0].attempts()] == [
        AttemptOutcome.RELEASED,
        AttemptOutcome.SUCCEEDED,
    ]
    store.close()


def test_leases_are_found_without_it(url: str) -> None:
    """C41: what a dead worker held in the others is released, however long it is away."""
    store = Sick(url)
    enqueue(store, NewJob(type="t", queue="red"), NewJob(type="t", queue="mail"))
    jobs = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5))).jobs
    store.number = partition_of("red")
    (lease,) = store.run(store.queue.held(["w"]))
    assert [lease.job_id] == [job.id for job in jobs if job.queue == "mail"]
    store.close()


def test_a_worker_starts_without_it_and_declares_its_limits_when_it_is_back(url: str) -> None:
    store = Sick(url)
    for queue in ("red", "mail"):
        enqueue(store, *[NewJob(type="t", queue=queue)] * 3)
    store.number = partition_of("red")
    store.run(store.settings.limit_types({"t": TypeLimits(rate=Rate(1, 3600.0))}))
    asked = ClaimRequest(worker="w", limit=10)
    assert [job.queue for job in store.run(store.queue.claim(asked)).jobs] == ["mail"]
    store.number = -2
    store._hub._sick.clear()  # it is asked again after a second
    assert [job.queue for job in store.run(store.queue.claim(asked)).jobs] == ["red"]
    assert store.run(store.queue.claim(asked)).jobs == []
    store.close()


def test_what_was_done_in_a_part_of_them_is_unknown(url: str) -> None:
    store = Sick(url)
    ids = enqueue(store, NewJob(type="t", queue="red"), NewJob(type="t", queue="mail"))
    store.number = partition_of("red")
    cancel: Operation[Any] = store.control.cancel(ids)
    with pytest.raises(UnknownOutcomeError, match="some partitions only"):
        store.run(cancel)
    with pytest.raises(StoreUnavailableError):
        store.run(store.control.cancel(ids[:1]))
    store.close()


def test_a_flow_is_accepted_while_one_of_its_masters_is_away(url: str) -> None:
    """Its intent is stored; the part of the master that is away follows."""
    store = Sick(url)
    enqueue(store, NewJob(type="t", queue="red"), NewJob(type="t", queue="mail"))

    def lose(call: PartitionCall) -> Any:
        if call.operation.name == "enqueue":  # the intent; from now on it is away
            reply = super(Sick, store).call(call)
            store.number = partition_of("red")
            return reply
        return Sick.call(store, call)

    store.call = lose  # type: ignore[method-assign]
    jobs = [NewJob(type="x", queue="mail", payload=Body(b"1")), NewJob(type="x", queue="red")]
    replies = store.run(store.queue.enqueue(jobs, atomic=True))
    store.close()
    other = PartitionedStore(url)
    assert other.run(other.reader.locate([reply.job_id for reply in replies]))[0] == "mail"
    other.run(other.upkeep.promote(10))
    assert None not in other.run(other.reader.get([reply.job_id for reply in replies]))
    assert other.run(other.reader.count(JobFilter(type="x"))) == 2
    other.close()


def test_encrypted_jobs_have_ids_of_their_partitions(url: str) -> None:
    """Content is bound to an id that is made before the job is stored."""
    keys = KeyRing((EncryptionKey("k", b"1" * 32),))
    store = open_store(url, keys=keys)
    jobs = [NewJob(type="t", queue=queue, payload=Body(b'"secret"')) for queue in ("red", "mail")]
    ids = [reply.job_id for reply in store.run(store.queue.enqueue(jobs, atomic=True))]
    assert [partition_of_id(each) for each in ids] == [partition_of("red"), partition_of("mail")]
    found = store.run(store.reader.get(ids))
    assert [None if job is None else job.payload_body.data for job in found] == [b'"secret"'] * 2
    plain = open_store(url)
    (hidden, _) = plain.run(plain.reader.get(ids))
    assert hidden is not None
    assert b"secret" not in hidden.payload_body.data
    store.close()
    plain.close()
