"""Queues and types: look at them, pause and limit them; and the workers."""

from __future__ import annotations

from typing import Any

from fencepost.core.values.names import check_queue, check_type
from fencepost.http.auth.scope import check_queue_allowed
from fencepost.http.request.call import Call, Nothing, Reply, afterwards
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.wire.queues import AppLimit, LimitBody, Queues, Types, Workers


async def list_queues(call: Call[Nothing, Nothing]) -> Reply:
    """Return every queue with its counts, as far as the token reaches."""
    views = await call.run(call.actions.queues.all())
    return Reply(Queues([view for view in views if call.principal.may_use(view.name)]))


async def list_types(call: Call[Nothing, Nothing]) -> Reply:
    """Return every type with its counts."""
    return Reply(Types(await call.run(call.actions.types.all())))


async def list_workers(call: Call[Nothing, Nothing]) -> Reply:
    """Return the workers heard from within the last minute."""
    return Reply(Workers(await call.run(call.actions.workers())))


async def pause_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a queue; those running go on."""
    name = _queue(call)
    await call.run(call.actions.queues.pause(name))
    return Reply(await afterwards(_queue_view(call, name)))


async def resume_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a queue again, in their old order."""
    name = _queue(call)
    await call.run(call.actions.queues.resume(name))
    return Reply(await afterwards(_queue_view(call, name)))


async def limit_queue(call: Call[LimitBody, Nothing]) -> Reply:
    """Run at most so many jobs of a queue at once."""
    name, limit = _queue(call), call.body.max_running
    call.detail["max_running"] = limit
    await call.run(call.actions.queues.limit(name, limit))
    return Reply(await afterwards(_queue_view(call, name)))


def _queue(call: Call[Any, Any]) -> str:
    name = check_queue(call.path["name"])
    check_queue_allowed(call.principal, name)
    return name


async def _queue_view(call: Call[Any, Any], name: str) -> QueueView:
    views = await call.run(call.actions.queues.all())
    return next((view for view in views if view.name == name), QueueView(name=name))


async def pause_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a type; those running go on."""
    name = check_type(call.path["name"])
    await call.run(call.actions.types.pause(name))
    return Reply(await afterwards(_type_view(call, name)))


async def resume_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a type again, in their old order."""
    name = check_type(call.path["name"])
    await call.run(call.actions.types.resume(name))
    return Reply(await afterwards(_type_view(call, name)))


async def _type_view(call: Call[Any, Any], name: str) -> TypeView:
    views = await call.run(call.actions.types.all())
    return next((view for view in views if view.name == name), TypeView(name=name))


async def get_limit(call: Call[Nothing, Nothing]) -> Reply:
    """Return how many jobs may run at once in all."""
    limit = await call.session.store.run_async(call.session.store.settings.app_limit())
    return Reply(AppLimit(max_running=limit))


async def set_limit(call: Call[LimitBody, Nothing]) -> Reply:
    """Run at most so many jobs at once in all, over all workers."""
    limit = call.body.max_running
    call.detail["max_running"] = limit
    await call.run(call.actions.limit(limit))
    return Reply(AppLimit(max_running=limit))
