"""A lease that is valid is found though a heartbeat moves it while somebody waits for it.

Store-specific: elsewhere a job has a row of its own. Here a heartbeat of some jobs of a claim puts
them into a row of their own, which whoever waited for the old one did not see, and called the
lease lost: 41 of 1,500 settlements, when as many threads were let go together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.store.postgres.blocking import (
    DONE,
    REFUSED,
    answer,
    apart,
    open_transaction,
    see_waiting,
    settlement,
)
from tests.worker.support import LONG

from fencepost.core.job.job import Body, ClaimedJob, NewJob
from fencepost.store.interface.queue import (
    Beat,
    ClaimRequest,
    Extended,
    Save,
    Saved,
    Settled,
    Spawn,
    Spawned,
)
from fencepost.store.plan import Operation
from fencepost.store.postgres.jobs.heartbeat import HEARTBEAT
from fencepost.store.postgres.jobs.lease import read_token
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.sql.codec import encode_json

pytestmark = pytest.mark.postgres("migrated")

CLAIMED = 6
CROWD = 24

Write = Callable[[PostgresStore, ClaimedJob], Operation[list[Any]]]


def succeed(store: PostgresStore, job: ClaimedJob) -> Operation[list[Any]]:
    return store.queue.settle([settlement(job, DONE)])


def refuse(store: PostgresStore, job: ClaimedJob) -> Operation[list[Any]]:
    return store.queue.settle([settlement(job, REFUSED)])


def extend(store: PostgresStore, job: ClaimedJob) -> Operation[list[Any]]:
    return store.queue.heartbeat([Beat(job.id, job.lease.token, 600.0)])


def keep(store: PostgresStore, job: ClaimedJob) -> Operation[list[Any]]:
    return store.queue.save([Save(job.id, job.lease.token, checkpoint=Body(b"1"))])


def spawn(store: PostgresStore, job: ClaimedJob) -> Operation[list[Any]]:
    return store.queue.spawn([Spawn(job.id, job.lease.token, (NewJob(type="child"),))])


WRITES: dict[Write, type] = {
    succeed: Settled,
    refuse: Settled,
    extend: Extended,
    keep: Saved,
    spawn: Spawned,
}


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url + ("&" if "?" in postgres_url else "?") + "pool_size=40")
    store.migrate()
    yield store
    store.close()


def claim(store: PostgresStore, count: int) -> list[ClaimedJob]:
    store.run(store.queue.enqueue([NewJob(type="mail")] * count))
    return list(store.run(store.queue.claim(ClaimRequest(worker="w", limit=count))).jobs)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.__name__)
def test_whoever_waits_for_a_lease_that_is_split_finds_it(
    store: PostgresStore, postgres_url: str, write: Write
) -> None:
    """S0-40, S0-48: under a valid lease each write is accepted, whoever else has it in hand."""
    first, second, *_ = claim(store, CLAIMED)
    for place, job in enumerate((first, second)):
        fence = read_token(job.lease.token, job.id)
        beats = [[fence.lease_token, (900 + place) * 1_000_000, f"{{{fence.seq}}}"]]
        with open_transaction(postgres_url) as other:
            other.execute(HEARTBEAT, (None, encode_json(beats)))
            replies = apart(partial(store.run, write(store, job)))
            see_waiting(postgres_url)
            other.commit()
            assert [type(reply) for reply in answer(replies)] == [WRITES[write]]


@pytest.mark.parametrize("write", [succeed, refuse, keep], ids=lambda each: each.__name__)
def test_of_many_that_are_let_go_together_none_loses_its_lease(
    store: PostgresStore, write: Write
) -> None:
    """S0-40, S0-48: each job has a heartbeat and a write, all at once."""
    for _ in range(10):
        jobs = claim(store, CROWD // 2)
        start = threading.Barrier(CROWD)

        def act(operation: Operation[list[Any]], start: threading.Barrier = start) -> Any:
            start.wait(LONG)
            return store.run(operation)[0]

        with ThreadPoolExecutor(CROWD) as crowd:
            beats = [crowd.submit(act, extend(store, job)) for job in jobs]
            writes = [crowd.submit(act, write(store, job)) for job in jobs]
        replies = [each.result() for each in writes]
        assert [reply for reply in replies if not isinstance(reply, WRITES[write])] == []
        assert len(beats) == len(jobs)
