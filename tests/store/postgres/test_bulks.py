"""Many jobs in one call. PostgreSQL-specific: only its batches are made while a server is busy."""

from __future__ import annotations

import pytest

from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Priority
from fencepost.store.interface.queue import Enqueued
from fencepost.store.postgres.jobs import enqueue
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")


@pytest.fixture
def store(postgres_url: str) -> PostgresStore:
    return PostgresStore(postgres_url)


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
