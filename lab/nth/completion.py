"""The scenario of a handler that completes its job in its own transaction, on PostgreSQL."""

from __future__ import annotations

import psycopg

from fencepost import Context, State
from lab.nth.world import World


async def completed_in_a_transaction(world: World) -> None:
    """A handler's write and the end of its job commit together, whatever is lost on the way."""
    url = world.store.inner.url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table if not exists ledger(job uuid)")
        connection.execute("truncate ledger")

    @world.app.task
    async def transfer(ctx: Context) -> None:
        world.ran(ctx)
        with psycopg.connect(url) as connection:
            connection.execute("insert into ledger(job) values (%s)", (ctx.job_id,))
            ctx.complete_in(connection, "paid")

    jobs = [await world.submit(transfer, key=f"t{n}") for n in range(2)]
    await world.finish()
    with psycopg.connect(url) as connection:
        rows = connection.execute("select job::text, count(*) from ledger group by job").fetchall()
    world.require(
        dict(rows) == {job.id: 1 for job in jobs}, f"writes and jobs differ: {dict(rows)}"
    )
    for job in jobs:
        world.expect(job.id, State.COMPLETED, more_runs=1)
