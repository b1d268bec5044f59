"""Many jobs in one call. PostgreSQL-specific: only its batches are made while a server is busy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Priority
from fencepost.store.interface.queue import Enqueued
from fencepost.store.plan import Statement
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.jobs import enqueue
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")


@pytest.fixture
def store(postgres_url: str) -> PostgresStore:
    return PostgresStore(postgres_url)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every round trip, as the first words of its statements."""
    trips: list[list[str]] = []
    ask = ServerSession.ask

    def record(self: ServerSession, statements: Sequence[Statement], *rest: object) -> object:
        trips.append([each.sql.split("(")[0] for each in statements])
        return ask(self, statements, *rest)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(ServerSession, "ask", record)
    return trips


def test_a_bulk_of_several_batches_is_stored_in_its_order(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue, "CHUNK", 2)
    jobs = [NewJob(type="mail", payload=Body(b"[%d]" % number)) for number in range(5)]
    jobs += [
        NewJob(type="mail", payload=Body(b"[5]"), key=Key("k", None)),
        NewJob(type="mail", payload=Body(b"[6]"), priority=Priority.HIGH),
        NewJob(type="mail", payload=Body(b"[7]"), submitter="token"),
    ]
    replies = store.run(store.queue.enqueue(jobs, atomic=True))
    assert all(isinstance(reply, Enqueued) for reply in replies)
    found = store.run(store.reader.get([reply.job_id for reply in replies]))
    kept = [job and (job.payload_body, job.priority, job.submitter) for job in found]
    assert kept == [(job.payload, job.priority, job.submitter) for job in jobs]
    store.close()


def test_a_bulk_of_one_batch_takes_one_round_trip(
    store: PostgresStore, asked: list[list[str]]
) -> None:
    store.run(store.queue.enqueue([NewJob(type="mail")]))
    del asked[:]
    store.run(store.queue.enqueue([NewJob(type="mail")] * 10, atomic=True))
    assert [trip for trip in asked if "pg_notify" not in trip[-1]] == [["select fencepost.enqueue"]]
    store.close()
