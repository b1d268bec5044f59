"""Names to complete in a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.core.bounds import TYPE_LENGTH_MAX
from fencepost.core.filter import make_page
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import route
from fencepost.wire.overview import CompletionQuery, Completions


@route("GET /v1/completions", "Complete a name", Completions)
async def complete(call: Call[Nothing, CompletionQuery]) -> Reply:
    """Return names that begin as given: those that begin with it first, then those that hold it."""
    query = call.query
    limit = make_page(limit=query.limit, after=None).limit
    if len(query.prefix) > TYPE_LENGTH_MAX:
        raise HttpError(f"prefix has {len(query.prefix)} characters, {TYPE_LENGTH_MAX} at most")
    prefix = query.prefix.lower()
    names = {*await _names(call, query.field)}
    found = sorted((name for name in names if prefix in name.lower()), key=_order(prefix))
    return Reply(Completions(found[:limit]))


def _order(prefix: str) -> Any:
    return lambda name: (not name.lower().startswith(prefix), name)


async def _names(call: Call[Any, Any], field: str) -> Iterable[str]:
    """Return the names of a field that the token may know: of its own queues."""
    allowed = call.principal.queues
    if field == "worker":
        workers = [] if allowed is not None else await call.run(call.actions.workers())
        return [worker.id for worker in workers]
    totals = await call.session.store.run_async(call.session.store.series.totals())
    within = [lane for lane in totals if allowed is None or lane.queue in allowed]
    return [lane.queue if field == "queue" else lane.type for lane in within]
