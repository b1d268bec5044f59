"""Batch handlers on PostgreSQL: what differs between engines is who writes the outcomes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.worker.support import drain

from fencepost import App, BatchJob, PermanentError, Retry, State

pytestmark = [pytest.mark.postgres("migrated"), pytest.mark.usefixtures("never_late")]


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    with App(postgres_url, retry=Retry(max_attempts=2, initial_delay=60)) as app:
        app.migrate()
        yield app


@pytest.mark.parametrize("is_async", [True, False])
async def test_each_job_of_a_batch_has_its_own_outcome(app: App, is_async: bool) -> None:
    sizes: list[int] = []

    def both(jobs: list[BatchJob[int]]) -> list[object]:
        sizes.append(len(jobs))
        ends: dict[int, object] = {1: ValueError("not now"), 2: PermanentError("never")}
        return [ends.get(job.payload, job.payload * 2) for job in jobs]

    async def coroutine(jobs: list[BatchJob[int]]) -> list[object]:
        return both(jobs)

    task = app.task(name="double", batch=10)(coroutine if is_async else both)
    jobs = task.submit_many(range(30))
    await drain(app, concurrency=20)
    assert sum(sizes) == 30
    assert max(sizes) == 10
    states = [job.refresh().state for job in jobs]
    assert states[1:3] == [State.RETRYING, State.FAILED]
    results = [job.result(0) for job in (jobs[0], *jobs[3:])]
    assert results == [0, *(2 * number for number in range(3, 30))]
    assert {len(job.attempts()) for job in jobs} == {1}
