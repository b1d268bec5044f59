"""What a worker does before its first claim."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.worker.support import drain, eventually_sync

from fencepost import App, State
from fencepost.core.bounds import CLAIM_MAX, RECOVER_BATCH
from fencepost.core.filter import JobFilter
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Backoff, Policy
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.records.cluster import CHORES_TERM

LOST = 2 * RECOVER_BATCH + 1
"""More than a first claim takes back on its way."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


def lose(app: App, count: int) -> None:
    """Leave *count* running jobs behind, whose worker is gone and whose leases have run out."""
    assert count <= CLAIM_MAX, "a second claim would take back what the first one took"
    store = app.store
    policy = Policy(backoff=Backoff(initial_delay=3600.0))
    store.run(store.queue.enqueue([NewJob(type="left_behind", policy=policy)] * count))
    request = ClaimRequest(worker="gone", limit=count, lease_ttl=0.05)
    jobs = store.run(store.queue.claim(request)).jobs
    assert len(jobs) == count
    last = max(job.lease.expires_at for job in jobs)
    eventually_sync(lambda: datetime.now(UTC) > last, "leases that have run out")


def count(app: App, state: State) -> int:
    return app.store.run(app.store.reader.count(JobFilter(type="left_behind", states=(state,))))


async def test_every_lease_that_ran_out_while_nobody_looked_is_taken_back(url: str) -> None:
    """S4-19, S4-23, S2-36: drained until none is left, not a batch now and a batch a second.

    The worker knows no task of these jobs and ends at its first claim that brings nothing, so
    it has no second look at them. Somebody else has the term, and is in no hurry.
    """
    with App(url) as app:
        app.migrate()

        @app.task
        def known() -> str:
            return "done"

        lose(app, LOST)
        assert app.store.run(app.store.cluster.lead(CHORES_TERM, "somebody", 60.0)) is not None
        assert count(app, State.RUNNING) == LOST
        await drain(app)
        assert count(app, State.RUNNING) == 0
        assert count(app, State.RETRYING) == LOST
