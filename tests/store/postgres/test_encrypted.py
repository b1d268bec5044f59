"""PostgreSQL with encryption around it: what has columns of its own there, and nothing readable.

The rest of the suite is run over encrypted memory and SQLite; here the parts that touch contents.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.store.test_encrypted import (
    CANARY,
    NEW_ONLY,
    OLD_ONLY,
    SECRET,
    TROUBLE,
    claim,
    kill,
    live_through_everything,
    look,
    submit,
)

from conformance import (  # noqa: F401 - tests and fixtures, run from here
    TestAttempts,
    TestDeadLetters,
    TestEnqueueing,
    TestFailing,
    TestKeys,
    TestMoving,
    TestPayloads,
    TestReplaying,
    TestSaving,
    TestSettling,
    colour,
    h,
    is_durable,
)
from conformance.harness import MakeStore
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.outcome import Failed, Succeeded, decide, settlement_of
from fencepost.core.values.names import id_bytes
from fencepost.store.interface.control import Replay, Replayed, RetryRequest, Sealed
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Store
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.wrappers.encrypted import encrypted
from fencepost.testing.clock import FakeClock


@pytest.fixture
def make_store(fresh_postgres: FreshPostgres) -> MakeStore:
    url = fresh_postgres(postgres_sources()[0])

    def make(clock: FakeClock) -> Store:
        store = PostgresStore(url, clock=clock)
        store.migrate()
        return encrypted(store, NEW_ONLY)

    return make


@pytest.fixture
def url(fresh_postgres: FreshPostgres) -> str:
    url = fresh_postgres(postgres_sources()[0])
    store = PostgresStore(url)
    store.migrate()
    store.close()
    return url


def everything(url: str) -> bytes:
    """Return what every table holds."""
    tables = "select relname from pg_class where relnamespace = 'fencepost'::regnamespace"
    found: list[bytes] = []
    with psycopg.connect(url) as conn:
        for (name,) in conn.execute(f"{tables} and relkind = 'r'").fetchall():
            with conn.cursor().copy(f"copy fencepost.{name} to stdout (format binary)") as copy:
                found += [bytes(part) for part in copy]
    return b"".join(found)


def test_nothing_that_a_user_put_into_a_job_can_be_read_in_any_table(url: str) -> None:
    """S1-95. Of a job without keys it can, so the test would notice."""
    bare = PostgresStore(url)
    live_through_everything(encrypted(bare, NEW_ONLY))
    assert CANARY.encode() not in everything(url)
    submit(bare)
    assert CANARY.encode() in everything(url)
    bare.close()


def test_a_ciphertext_moved_to_another_job_does_not_open(url: str) -> None:
    store = encrypted(PostgresStore(url), NEW_ONLY)
    first, second = submit(store), submit(store)
    with psycopg.connect(url) as conn:
        conn.execute(
            "update fencepost.submissions set payload_bytes = "
            "(select payload_bytes from fencepost.submissions where id = %s)",
            (first,),
        )
    assert look(store, first).payload_body == SECRET
    assert look(store, second).payload_body.encoding is Encoding.ENCRYPTED
    store.close()


@pytest.mark.parametrize("payload", [Body(b"[7]"), Body(b"\0\xff", Encoding.BINARY), None])
def test_a_replay_takes_the_id_and_the_payload_that_it_is_given(
    url: str, payload: Body | None
) -> None:
    store = PostgresStore(url)
    dead = kill(store, payload=SECRET)
    fresh = store.clock.new_id()
    (reply,) = store.run(store.control.replay([Replay(dead, fresh, payload)]))
    assert isinstance(reply, Replayed)
    assert id_bytes(reply.job_id) == fresh
    assert claim(store).payload == (payload or SECRET)
    store.close()


def test_without_the_key_a_dead_letter_is_not_replayed_and_stays(url: str) -> None:
    rich = encrypted(PostgresStore(url), NEW_ONLY)
    dead = kill(rich)
    bare = PostgresStore(url)
    poor = encrypted(bare, OLD_ONLY)
    for store in (bare, poor):
        assert store.run(store.control.replay([dead])) == [Sealed(dead)]
    assert len(rich.run(rich.reader.dead_letters(None, PageRequest(9))).letters) == 1
    (reply,) = rich.run(rich.control.replay([dead]))
    assert isinstance(reply, Replayed)
    assert claim(rich).payload == SECRET
    for store in (rich, bare):
        store.close()


async def test_awaited_operations_that_share_a_commit_are_encrypted_each_for_its_own(
    url: str,
) -> None:
    import asyncio

    store = encrypted(PostgresStore(url), NEW_ONLY)
    jobs = [NewJob(type="mail", payload=Body(str(n).encode())) for n in range(50)]
    replies: list[Any] = await asyncio.gather(
        *(store.run_async(store.queue.enqueue([job])) for job in jobs)
    )
    found = await store.run_async(store.reader.get([reply.job_id for [reply] in replies]))
    assert [job.payload_body for job in found if job is not None] == [job.payload for job in jobs]
    store.close()


@pytest.mark.parametrize("is_given", [True, False])
def test_results_of_a_batch_belong_to_the_leases_that_the_server_numbers(
    url: str, is_given: bool
) -> None:
    """Versions are made there, by its clock, and again wherever a lease is looked at."""
    store = encrypted(PostgresStore(url), NEW_ONLY)
    jobs = [NewJob(type="mail", payload=Body(str(n).encode())) for n in range(60)]
    store.run(store.queue.enqueue(jobs))
    for is_last in (False, True):
        claimed = store.run(store.queue.claim(ClaimRequest(worker="w", limit=60))).jobs
        assert len(claimed) == 60
        settlements = []
        for number, job in enumerate(claimed):
            is_done = is_last or number % 3 == 0
            outcome = Succeeded(job.payload) if is_done else Failed(TROUBLE)
            given = settlement_of(job, decide(job, outcome, store.clock.rng))
            settlements.append(given if is_given else replace(given, job=None))
        store.run(store.queue.settle(settlements))
        if not is_last:
            dead = store.run(store.reader.dead_letters(None, PageRequest(99))).letters
            assert {each.failure.message for each in dead} == {TROUBLE.message}
            store.run(store.control.retry([RetryRequest(each.job_id) for each in dead]))
            store.run(store.queue.enqueue(jobs[: 60 - len(dead)]))
    found = store.run(store.reader.find(JobFilter(), PageRequest(99))).jobs
    assert len(found) == 80
    assert all(job.result_body == job.payload_body for job in found)
    store.close()
