"""Crons: look at them, pause them, run one now."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.bounds import CRON_NEXT_DEFAULT
from fencepost.handles import crons as scripts
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.store.interface.crons import CronView as StoredCron
from fencepost.store.interface.replies import Duplicate
from fencepost.wire.crons import CronView
from fencepost.wire.jobs import Accepted
from fencepost.wire.terms import TickCount


class Crons(msgspec.Struct, frozen=True):
    """Every cron, by name."""

    crons: list[CronView]


class TicksQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many."""

    count: TickCount = CRON_NEXT_DEFAULT


class Ticks(msgspec.Struct, frozen=True):
    """The next times at which a cron ticks, in UTC."""

    ticks: list[datetime]


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
    views = await call.session.run_async(scripts.list_all(call.session))
    return Reply(Crons([cron_of(view) for view in views]))


async def next_ticks(call: Call[Nothing, TicksQuery]) -> Reply:
    """Return the next times at which a cron ticks, paused or not."""
    ticks = await call.session.run_async(
        scripts.next_ticks(call.session, call.path["name"], call.query.count)
    )
    return Reply(Ticks(ticks))


async def pause_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire no more ticks of a cron; jobs that it has made go on."""
    await call.session.run_async(scripts.pause(call.session, call.path["name"]))
    return Reply(None, 204)


async def resume_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
    await call.session.run_async(scripts.resume(call.session, call.path["name"]))
    return Reply(None, 204)


async def run_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a job of a cron now; its schedule goes on as it was."""
    reply = await call.session.run_async(scripts.run(call.session, call.path["name"]))
    is_duplicate = isinstance(reply, Duplicate)
    accepted = Accepted(id=reply.job_id, type=reply.type, state=reply.state, duplicate=is_duplicate)
    return Reply(accepted, 201, {"location": f"/v1/jobs/{reply.job_id}"})


async def forget_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Delete a cron; a worker whose app declares it brings it back."""
    await call.session.run_async(scripts.forget(call.session, call.path["name"]))
    return Reply(None, 204)
