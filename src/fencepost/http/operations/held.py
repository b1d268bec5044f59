"""What workers hold now, and names to complete in a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.core.bounds import PAGE_MAX, TYPE_LENGTH_MAX
from fencepost.core.filter import PageRequest, make_filter, make_page
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import route
from fencepost.http.scope import queue_for
from fencepost.wire.held import CompletionQuery, Completions, HeldLease, HeldLeases, LeaseQuery


@route("GET /v1/leases", "See which jobs workers hold", HeldLeases, "invalid_job")
async def list_leases(call: Call[Nothing, LeaseQuery]) -> Reply:
    """Return running jobs with their leases, those that end first at the top.

    Of the newest 1,000 running jobs.
    """
    query, store = call.query, call.session.store
    limit = make_page(limit=query.limit, after=None).limit
    queue = queue_for(call.principal, query.queue)
    filter = make_filter(state=State.RUNNING, queue=queue)
    page = await store.run_async(store.reader.find(filter, PageRequest(PAGE_MAX)))
    held = [_held(job) for job in page.jobs if job.lease is not None]
    wanted = [lease for lease in held if query.worker in (None, lease.worker)]
    ordered = sorted(wanted, key=lambda lease: (lease.expires_at, lease.job_id))
    return Reply(HeldLeases(leases=ordered[:limit], is_complete=page.next is None))


def _held(job: Job) -> HeldLease:
    lease = job.lease
    assert lease is not None
    return HeldLease(
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        attempt=job.attempt,
        worker=lease.worker,
        fence=lease.version,
        started_at=job.started_at,
        expires_at=lease.expires_at,
        is_expired=lease.expired,
    )


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
