"""Queues and types: look at them, pause and limit them; and the workers."""

from __future__ import annotations

from typing import Any

import msgspec

from fencepost.core.values.names import check_queue, check_type
from fencepost.http.auth.scope import check_queue_allowed
from fencepost.http.operations.after_write import afterwards
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope
from fencepost.wire.terms import RunningLimit


class Queues(msgspec.Struct, frozen=True):
    """Every queue with its counts by state."""

    queues: list[QueueView]


class Types(msgspec.Struct, frozen=True):
    """Every type with its counts by state."""

    types: list[TypeView]


class Workers(msgspec.Struct, frozen=True):
    """The workers heard from within the last minute."""

    workers: list[WorkerInfo]


class LimitBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How many jobs may run at once, over all workers; null lifts the limit."""

    max_running: RunningLimit | None


async def list_queues(call: Call[Nothing, Nothing]) -> Reply:
    """Return every queue with its counts, as far as the token reaches."""
    views = await call.session.store.run_async(call.session.store.overview.queues())
    return Reply(Queues([view for view in views if call.principal.may_use(view.name)]))


async def list_types(call: Call[Nothing, Nothing]) -> Reply:
    """Return every type with its counts."""
    return Reply(Types(await call.session.store.run_async(call.session.store.overview.types())))


async def list_workers(call: Call[Nothing, Nothing]) -> Reply:
    """Return the workers heard from within the last minute."""
    return Reply(Workers(await call.session.store.run_async(call.session.store.cluster.workers())))


async def pause_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a queue; those running go on."""
    name = _queue(call)
    await call.session.store.run_async(call.session.store.settings.pause(Scope.QUEUE, name))
    return Reply(await afterwards(_queue_view(call, name)))


async def resume_queue(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a queue again, in their old order."""
    name = _queue(call)
    await call.session.store.run_async(call.session.store.settings.resume(Scope.QUEUE, name))
    return Reply(await afterwards(_queue_view(call, name)))


async def limit_queue(call: Call[LimitBody, Nothing]) -> Reply:
    """Run at most so many jobs of a queue at once."""
    name, limit = _queue(call), call.body.max_running
    call.detail["max_running"] = limit
    await call.session.store.run_async(call.session.store.settings.limit(Scope.QUEUE, name, limit))
    return Reply(await afterwards(_queue_view(call, name)))


def _queue(call: Call[Any, Any]) -> str:
    name = check_queue(call.path["name"])
    check_queue_allowed(call.principal, name)
    return name


async def _queue_view(call: Call[Any, Any], name: str) -> QueueView:
    views = await call.session.store.run_async(call.session.store.overview.queues())
    return next((view for view in views if view.name == name), QueueView(name=name))


async def pause_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out no more jobs of a type; those running go on."""
    name = check_type(call.path["name"])
    await call.session.store.run_async(call.session.store.settings.pause(Scope.TYPE, name))
    return Reply(await afterwards(_type_view(call, name)))


async def resume_type(call: Call[Nothing, Nothing]) -> Reply:
    """Hand out the jobs of a type again, in their old order."""
    name = check_type(call.path["name"])
    await call.session.store.run_async(call.session.store.settings.resume(Scope.TYPE, name))
    return Reply(await afterwards(_type_view(call, name)))


async def _type_view(call: Call[Any, Any], name: str) -> TypeView:
    views = await call.session.store.run_async(call.session.store.overview.types())
    return next((view for view in views if view.name == name), TypeView(name=name))


class AppLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs may run at once in all; null: any number."""

    max_running: int | None


async def get_limit(call: Call[Nothing, Nothing]) -> Reply:
    """Return how many jobs may run at once in all."""
    limit = await call.session.store.run_async(call.session.store.settings.app_limit())
    return Reply(AppLimit(max_running=limit))


async def set_limit(call: Call[LimitBody, Nothing]) -> Reply:
    """Run at most so many jobs at once in all, over all workers."""
    limit = call.body.max_running
    call.detail["max_running"] = limit
    await call.session.store.run_async(call.session.store.settings.limit(Scope.APP, "", limit))
    return Reply(AppLimit(max_running=limit))
