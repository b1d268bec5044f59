"""Flows: jobs that are submitted together and wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.actions.backend import Script
from fencepost.actions.local.flows import prepare
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.job.job import Job, NewJob
from fencepost.errors import InvalidJobError
from fencepost.http.operations.submit import accepted_all
from fencepost.http.operations.submit import prepare as prepare_job
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import FOLLOW, action, route, submit_route
from fencepost.http.scope import disguised, may_see_all, shown
from fencepost.wire.bounds import HTTP_BATCH_MAX
from fencepost.wire.flows import (
    FlowBody,
    FlowEdge,
    FlowQuery,
    FlowView,
    SubmittedFlow,
    WireFlowPage,
)
from fencepost.wire.jobs import Count, summary_of


@submit_route(
    "POST /v1/flows", "Submit jobs that wait for each other", {201: SubmittedFlow}, is_batch=True
)
async def submit_flow(call: Call[FlowBody, Nothing]) -> Reply:
    """Store all jobs of a flow or none, in one transaction."""
    session = call.session
    count = len(call.body.nodes)
    if count > HTTP_BATCH_MAX:
        raise HttpError(f"a flow has at most {HTTP_BATCH_MAX:,} nodes over HTTP, got {count:,}")
    nodes = await call.compute(lambda: _prepared(call))
    flow_id, jobs = call.actions.flows.new(nodes)
    known = await disguised(call, jobs)
    try:
        stored = await call.run(session.submit_all(known.jobs))
    except InvalidJobError as error:
        raise known.named(error) from None
    made = dict(zip(nodes, await accepted_all(call, stored), strict=True))
    location = {"location": f"/v1/flows/{flow_id}"}
    return Reply(SubmittedFlow(id=flow_id, jobs=made), 201, location)


def _prepared(call: Call[FlowBody, Nothing]) -> dict[str, NewJob]:
    """Return the jobs of a flow by name, in order."""
    return prepare(
        {
            name: prepare_job(call.session, each, call.principal)
            for name, each in call.body.nodes.items()
        }
    )


@route("GET /v1/flows", "List the flows", WireFlowPage)
async def list_flows(call: Call[Nothing, FlowQuery]) -> Reply:
    """Return a page of flows, newest first, counted within the queues that the token may use."""
    query = call.query
    found = call.actions.flows.find(
        query.kind, query.after, query.limit, queues=call.principal.queues
    )
    page = await call.run(found)
    return Reply(WireFlowPage(flows=page.flows, next=page.next))


async def _look(call: Call[Any, Any]) -> dict[str, Job]:
    """Return the jobs of the flow in the path that the token may see."""
    flow_id, queues = call.path["id"], call.principal.queues
    jobs = await call.run(call.actions.flows.get(flow_id, queues=queues))
    return dict(zip(jobs, await shown(call, list(jobs.values())), strict=True))


@route("GET /v1/flows/{id}", "Look at a flow", FlowView, roles=FOLLOW)
async def get_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Return the jobs of a flow by name."""
    jobs = await _look(call)
    views = {
        name: summary_of(job, is_full=may_see_all(call.principal, job))
        for name, job in jobs.items()
    }
    edges = await _edges(call, jobs)
    return Reply(FlowView(id=call.path["id"], jobs=views, edges=edges))


async def _edges(call: Call[Any, Any], jobs: dict[str, Job]) -> list[FlowEdge]:
    """Return which of *jobs* wait for which; nothing of jobs that the token may not see."""
    store, names = call.session.store, {job.id: name for name, job in jobs.items()}
    waiting = [job for job in jobs.values() if job.waits is not None]
    edges: list[FlowEdge] = []
    for start in range(0, len(waiting), PAGE_MAX):
        some = waiting[start : start + PAGE_MAX]
        found = await store.run_async(store.reader.dependencies([job.id for job in some]))
        edges += [
            FlowEdge(source=names[each.job_id], target=names[job.id], mode=job.waits.mode)
            for job, dependencies in zip(some, found, strict=True)
            for each in dependencies
            if each.job_id in names and job.waits is not None
        ]
    return edges


@action(
    "POST /v1/flows/{id}/cancel",
    "flow.cancel",
    "Cancel the jobs of a flow that have not ended",
    Count,
)
async def cancel_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel the jobs of a flow that have not ended."""
    return await _steer(call, call.actions.flows.cancel)


@action(
    "POST /v1/flows/{id}/retry",
    "flow.retry",
    "Run the failed and cancelled jobs of a flow again",
    Count,
)
async def retry_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Run the failed and cancelled jobs of a flow again, in order."""
    return await _steer(call, call.actions.flows.retry)


async def _steer(call: Call[Nothing, Nothing], action: Callable[..., Script[int]]) -> Reply:
    await _look(call)
    count = await call.run(action(call.path["id"], queues=call.principal.queues))
    call.detail["count"] = count
    return Reply(Count(count))
