"""The scenario of an event that is sent to two handlers under a key, and sent again."""

from __future__ import annotations

from fencepost import Context, State
from fencepost.core.filter import PageRequest
from fencepost.core.limits import PAGE_MAX
from lab.nth.world import World


async def sent(world: World) -> None:
    """An event is sent under a key, and again while its jobs live: one job a handler."""
    event = world.app.event("user.created")

    @event.on
    async def welcome(ctx: Context, user: int) -> int:
        world.ran(ctx)
        world.require(ctx.event is not None and ctx.event.name == "user.created", "no event")
        return user

    @world.app.event("user.*").on
    async def index(ctx: Context, user: int) -> int:
        world.ran(ctx)
        return user

    first = await world.insist(lambda: event.aio.send_idempotent("u7", user=7))
    again = await world.insist(lambda: event.aio.send_idempotent("u7", user=7))
    world.require(all(job.duplicate for job in again.jobs), "a repeat made a job")
    world.require(
        [job.id for job in first.jobs] == [job.id for job in again.jobs], "a repeat found others"
    )
    await world.finish()
    store = world.store.inner
    records = store.run(store.events(None, PageRequest(PAGE_MAX))).events
    known = {job.id for job in world.jobs()}
    named = [{job.job_id for job in record.jobs} for record in records]
    world.require(all(each == known for each in named), f"a record names {named} of {known}")
    made = [job for record in records for job in record.jobs if not job.is_duplicate]
    world.require(len(made) == len(known) == 2, f"{len(made)} jobs are recorded as made")
    world.require({first.id, again.id} <= {r.id for r in records}, "an event is not on record")
    for job in first.jobs:
        world.expect(job.id, State.COMPLETED)
