"""Names to complete in a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.core.bounds import TYPE_LENGTH_MAX
from fencepost.core.filter import PageRequest, make_filter, make_page
from fencepost.core.job.job import Job
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import route
from fencepost.http.scope import may_see_all
from fencepost.wire.bounds import COMPLETION_JOBS
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


OF_JOBS: dict[str, Callable[[Job], Iterable[str | None]]] = {
    "tag": lambda job: [f"{_escaped(name)}:{value}" for name, value in job.tags.items()],
    "correlation": lambda job: [job.correlation_id],
    "flow": lambda job: [job.flow],
    "key": lambda job: [job.key],
    "error": lambda job: [job.failure.exception if job.failure else None],
}
"""What a job has that can be completed."""


def _escaped(name: str) -> str:
    """Return the name of a tag as a filter takes it, where a colon ends it."""
    return name.replace("%", "%25").replace(":", "%3A")


async def _newest(call: Call[Any, Any]) -> list[Job]:
    """Return the newest jobs that the token may see."""
    allowed, store = call.principal.queues, call.session.store
    within = [None] if allowed is None else sorted(allowed)
    jobs: list[Job] = []
    for queue in within:
        request = PageRequest(max(1, COMPLETION_JOBS // len(within)))
        page = await store.run_async(store.reader.find(make_filter(queue=queue), request))
        jobs += [job for job in page.jobs if may_see_all(call.principal, job)]
    return jobs


def _order(prefix: str) -> Any:
    return lambda name: (not name.lower().startswith(prefix), name)


async def _names(call: Call[Any, Any], field: str) -> Iterable[str]:
    """Return the names of a field that the token may know: of its own queues."""
    allowed = call.principal.queues
    if field == "worker":
        workers = [] if allowed is not None else await call.run(call.actions.workers())
        return [worker.id for worker in workers]
    if field in OF_JOBS:
        values = (OF_JOBS[field](job) for job in await _newest(call))
        return [value for some in values for value in some if value]
    totals = await call.session.store.run_async(call.session.store.series.totals())
    within = [lane for lane in totals if allowed is None or lane.queue in allowed]
    return [lane.queue if field == "queue" else lane.type for lane in within]
