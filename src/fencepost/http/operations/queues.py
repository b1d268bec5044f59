"""Queues, types, workers and crons: list, pause, resume and limit them."""

from __future__ import annotations

from typing import Any

from fencepost.actions.local.queues import pauses
from fencepost.core.values.names import check_queue, check_type
from fencepost.http.operations.submit import created
from fencepost.http.request.call import Call, Nothing, Reply, afterwards
from fencepost.http.request.route import action, route, store_action, store_route
from fencepost.http.scope import check_queue_allowed
from fencepost.store.interface.records.crons import CronView
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.wire.bodies import shown_as
from fencepost.wire.jobs import Accepted
from fencepost.wire.overview import (
    AppLimit,
    CronRuns,
    Crons,
    LimitBody,
    Pauses,
    Queues,
    RunsQuery,
    Ticks,
    TicksQuery,
    TypeLimitBody,
    Types,
    WireCronView,
    Workers,
)


@route("GET /v1/queues", "List the queues", Queues)
async def list_queues(call: Call[Nothing, Nothing]) -> Reply:
    """Return the queues that the token may use, each with its counts."""
    allowed = call.principal.queues
    names = None if allowed is None else sorted(allowed)
    return Reply(Queues(await call.run(call.actions.queues.all(names))))


@store_route("GET /v1/types", "List the types", Types)
async def list_types(call: Call[Nothing, Nothing]) -> Reply:
    """Return every type with its counts."""
    return Reply(Types(await call.run(call.actions.types.all())))


@store_route("GET /v1/workers", "List the workers", Workers)
async def list_workers(call: Call[Nothing, Nothing]) -> Reply:
    """Return the workers heard from within the last minute, and the last that are gone."""
    workers = await call.run(call.actions.workers())
    return Reply(Workers(workers, await call.run(call.actions.gone_workers())))


@action("POST /v1/queues/{name}/pause", "queue.pause", "Pause a queue", QueueView)
async def pause_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a queue; running jobs continue."""
    name = _queue(call)
    await call.run(call.actions.queues.pause(name))
    return await _queue_reply(call, name)


@action("POST /v1/queues/{name}/resume", "queue.resume", "Resume a queue", QueueView)
async def resume_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a queue again, in their old order."""
    name = _queue(call)
    await call.run(call.actions.queues.resume(name))
    return await _queue_reply(call, name)


@action(
    "PUT /v1/queues/{name}/limit",
    "queue.limit",
    "Limit how many jobs of a queue run at once",
    QueueView,
)
async def limit_queue(call: Call[LimitBody, Nothing]) -> Reply:
    """Limit how many jobs of a queue run at once."""
    name, limit = _queue(call), call.body.max_running
    call.detail["max_running"] = limit
    await call.run(call.actions.queues.limit(name, limit))
    return await _queue_reply(call, name)


def _queue(call: Call[Any, Any]) -> str:
    name = check_queue(call.path["name"])
    check_queue_allowed(call.principal, name)
    return name


async def _queue_reply(call: Call[Any, Any], name: str) -> Reply:
    views = await afterwards(call.run(call.actions.queues.all([name])))
    return Reply(views[0] if views else QueueView(name=name))


@store_action("POST /v1/types/{name}/pause", "type.pause", "Pause a type", TypeView)
async def pause_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a type; running jobs continue."""
    name = check_type(call.path["name"])
    await call.run(call.actions.types.pause(name))
    return await _type_reply(call, name)


@store_action("POST /v1/types/{name}/resume", "type.resume", "Resume a type", TypeView)
async def resume_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a type again, in their old order."""
    name = check_type(call.path["name"])
    await call.run(call.actions.types.resume(name))
    return await _type_reply(call, name)


@store_action(
    "PUT /v1/types/{name}/limit",
    "type.limit",
    "Limit how often jobs of a type start",
    TypeView,
    "invalid_rate",
)
async def limit_type(call: Call[TypeLimitBody, Nothing]) -> Reply:
    """Limit how often jobs of a type start, until a worker declares what its code says."""
    name, rate = check_type(call.path["name"]), call.body.rate
    call.detail["rate"] = rate
    await call.run(call.actions.types.limit(name, rate))
    return await _type_reply(call, name)


async def _type_reply(call: Call[Any, Any], name: str) -> Reply:
    views = await afterwards(call.run(call.actions.types.all([name])))
    return Reply(views[0] if views else TypeView(name=name))


@store_route("GET /v1/limit", "See how many jobs may run at once in all", AppLimit)
async def get_limit(call: Call[Nothing, Nothing]) -> Reply:
    """Return how many jobs may run at once in all."""
    limit = await call.session.store.run_async(call.session.store.settings.app_limit())
    return Reply(AppLimit(max_running=limit))


@store_action("PUT /v1/limit", "app.limit", "Limit how many jobs run at once in all", AppLimit)
async def set_limit(call: Call[LimitBody, Nothing]) -> Reply:
    """Limit how many jobs run at once in all, over all workers."""
    limit = call.body.max_running
    call.detail["max_running"] = limit
    await call.run(call.actions.limit(limit))
    return Reply(AppLimit(max_running=limit))


def cron_of(cron: CronView) -> WireCronView:
    """Return a cron in the form in which it is sent."""
    template = cron.template
    return shown_as(
        WireCronView,
        cron,
        type=None if template is None else template.type,
        queue=None if template is None else template.queue,
    )


@store_route("GET /v1/crons", "List the crons", Crons)
async def list_crons(call: Call[Nothing, Nothing]) -> Reply:
    """Return every cron, by name."""
    views = await call.run(call.actions.crons.all())
    return Reply(Crons([cron_of(view) for view in views]))


@store_route("GET /v1/crons/{name}/next", "See when a cron ticks next", Ticks, "invalid_cron")
async def next_ticks(call: Call[Nothing, TicksQuery]) -> Reply:
    """Return the next times at which a cron ticks, paused or not."""
    ticks = call.actions.crons.next(call.path["name"], call.query.count)
    return Reply(Ticks(await call.run(ticks)))


@store_route("GET /v1/crons/{name}/runs", "See the last runs of a cron", CronRuns)
async def list_runs(call: Call[Nothing, RunsQuery]) -> Reply:
    """Return the newest jobs of a cron, of its ticks and of `run`, as long as they are kept."""
    runs = call.actions.crons.runs(call.path["name"], call.query.limit)
    return Reply(CronRuns(await call.run(runs)))


@route("GET /v1/pauses", "See what is paused, and by whom", Pauses)
async def list_pauses(call: Call[Nothing, Nothing]) -> Reply:
    """Return what is paused; a token for some queues sees these alone."""
    return Reply(Pauses(await call.run(pauses(call.session, call.principal.queues))))


@store_action("POST /v1/crons/{name}/pause", "cron.pause", "Pause a cron", None)
async def pause_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire no more ticks of a cron; its jobs continue."""
    await call.run(call.actions.crons.pause(call.path["name"]))
    return Reply(None, 204)


@store_action("POST /v1/crons/{name}/resume", "cron.resume", "Resume a cron", None, "invalid_cron")
async def resume_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
    await call.run(call.actions.crons.resume(call.path["name"]))
    return Reply(None, 204)


@store_action(
    "POST /v1/crons/{name}/run",
    "cron.run",
    "Submit a job of a cron now",
    Accepted,
    "too_many_lanes",
    status=201,
)
async def run_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Submit a job of a cron now; its schedule does not change."""
    return created(await call.run(call.actions.crons.run(call.path["name"])))


@store_action(
    "DELETE /v1/crons/{name}", "cron.forget", "Forget a cron that no app declares any more", None
)
async def forget_cron(call: Call[Nothing, Nothing]) -> Reply:
    """Delete a cron; a worker whose app declares it brings it back."""
    await call.run(call.actions.crons.forget(call.path["name"]))
    return Reply(None, 204)
