"""The scenario of jobs that were claimed together with one that blocks the loop."""

from __future__ import annotations

from fencepost import Context, State
from fencepost.core.bounds import START_WITHIN
from lab.nth.world import World


async def begun_late(world: World) -> None:
    """The first handler blocks the loop; those behind it are given back, and begin later."""

    @world.app.task
    async def work(ctx: Context) -> int:
        if world.ran(ctx) == 1 and len(world.runs) == 1:
            world.clock.advance(2 * START_WITHIN)
        return ctx.attempt

    jobs = [await world.submit(work, key=f"p{n}") for n in range(3)]
    await world.finish({"concurrency": 3})
    for job in jobs:
        world.expect(job.id, State.COMPLETED)
