"""The scenario of an event that is sent to two handlers under a key, and sent again."""

from __future__ import annotations

from contextlib import suppress

from fencepost import Context, DuplicateJobError, State
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import PageRequest
from lab.nth.world import World


async def sent(world: World) -> None:
    """An event is sent under a key; while its jobs live, it is refused: one job a handler."""
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

    async def send() -> None:
        # One whose answer was lost is found by its repeat, which is refused (C15).
        with suppress(DuplicateJobError):
            await event.aio.send_idempotent("u7", user=7)

    await world.insist(send)
    try:
        await world.insist(lambda: event.aio.send_idempotent("u7", user=7))
    except DuplicateJobError:
        pass
    else:
        world.require(False, "a repeat was not refused")
    await world.finish()
    store = world.store.inner
    records = store.run(store.events.list(None, PageRequest(PAGE_MAX))).events
    known = {job.id for job in world.jobs()}
    world.require(len(records) == 1, f"{len(records)} events are on record")
    named = {job.job_id for job in records[0].jobs}
    world.require(named == known and len(known) == 2, f"the record names {named} of {known}")
    for job_id in known:
        world.expect(job_id, State.COMPLETED)
