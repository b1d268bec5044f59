"""A flow that spawns, fails and runs again, on PostgreSQL: two workers, as on two machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.worker.support import LONG, working

from fencepost import App, Context, PermanentError, Retry, State, chain, fan_in

pytestmark = pytest.mark.postgres("migrated")


@pytest.fixture
def app(postgres_url: str) -> Iterator[App]:
    with App(postgres_url, retry=Retry(max_attempts=3, initial_delay=0.01)) as app:
        app.migrate()
        yield app


async def test_a_flow_that_spawns_fails_and_runs_again_reads_every_result(app: App) -> None:
    """S1-62 to S1-64, C29, C36."""
    broken = {2}

    @app.task
    def leaf(number: int) -> int:
        if number in broken:
            raise PermanentError("no")
        return number

    @app.task
    async def brood(ctx: Context) -> None:
        await ctx.aio.spawn(*(leaf.prepare(number) for number in range(5)))
        if ctx.attempt == 1:
            raise ValueError("after the spawn")

    @app.task
    def total(ctx: Context) -> int:
        return sum(value or 0 for value in ctx.dependency_results.values())

    @app.task
    def double(ctx: Context) -> int:
        return 2 * int(ctx.dependency_results["total"])

    graph = chain(fan_in([brood.prepare()], total.prepare()), double.prepare())
    handle = await app.aio.flow(graph).submit()
    async with working(app), working(app):
        ended = await handle.wait(LONG)
        assert ended == {
            "brood": State.COMPLETED,
            "total": State.FAILED,
            "double": State.FAILED,
        }
        broken.clear()
        assert await handle.retry() == 3
        results = await handle.results(LONG)
    assert (results["total"], results["double"]) == (10, 20)
    assert await app.aio.jobs.count(type="leaf") == 5
