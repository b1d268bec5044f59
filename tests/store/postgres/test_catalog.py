"""Numbers of lanes and policies: remembered when committed, and never forgotten halfway."""

from __future__ import annotations

import pytest

from fencepost.core.job import NewJob
from fencepost.core.policy import Policy
from fencepost.store.postgres import catalog as module
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.replies import Enqueued
from fencepost.store.requests import ClaimRequest

JOBS = [NewJob(type="mail", policy=Policy(max_attempts=n)) for n in range(1, 6)]


def test_a_full_memory_forgets_nothing_that_is_needed_now(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    store = PostgresStore(postgres_url)
    store.migrate()
    for batch in (JOBS[:2], [JOBS[0], JOBS[2]], JOBS):
        replies = store.run(store.enqueue(batch))
        assert all(isinstance(reply, Enqueued) for reply in replies)
    found = store.run(store.claim(ClaimRequest(worker="w", limit=100)))
    assert sorted(job.max_attempts for job in found.jobs) == [1, 1, 1, 2, 2, 3, 3, 4, 5]
    assert found.corrupt == []
    store.close()
