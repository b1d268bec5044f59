"""Crons: look at them, pause them, run one now."""

from __future__ import annotations

from fencepost.http.operations.accepted import created
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.store.interface.crons import CronView as StoredCron
from fencepost.wire.crons import Crons, CronView, Ticks, TicksQuery


def cron_of(cron: StoredCron) -> CronView:
    """Return a cron as the wire has it."""
    template = cron.template
    return CronView(
        name=cron.name,
        expression=cron.expression,
        tz=cron.tz,
        description=cron.description,
        type=None if template is None else template.type,
        queue=None if template is None else template.queue,
        missed=cron.missed,
        catch_up=cron.catch_up,
        is_paused=cron.is_paused,
        last_tick=cron.last_tick,
        next_tick=cron.next_tick,
        declared_at=cron.declared_at,
        changed_at=cron.changed_at,
    )


async def list_crons(call: Call[Nothing, Nothing]) -> Reply:
    """Return every cron, by name."""
    views = await call.run(call.actions.crons.all())
    return Reply(Crons([cron_of(view) for view in views]))


async def next_ticks(call: Call[Nothing, TicksQuery]) -> Reply:
    """Return the next times at which a cron ticks, paused or not."""
    ticks = call.actions.crons.next(call.path["name"], call.query.count)
    return Reply(Ticks(await call.run(ticks)))


async def pause_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire no more ticks of a cron; jobs that it has made go on."""
    await call.run(call.actions.crons.pause(call.path["name"]))
    return Reply(None, 204)


async def resume_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
    await call.run(call.actions.crons.resume(call.path["name"]))
    return Reply(None, 204)


async def run_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a job of a cron now; its schedule goes on as it was."""
    return created(await call.run(call.actions.crons.run(call.path["name"])))


async def forget_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Delete a cron; a worker whose app declares it brings it back."""
    await call.run(call.actions.crons.forget(call.path["name"]))
    return Reply(None, 204)
