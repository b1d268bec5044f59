"""Flows: jobs that are submitted together and wait for each other."""

from __future__ import annotations

from typing import Any

from fencepost.actions.local.flows import prepare
from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.job.job import Job, NewJob
from fencepost.errors import InvalidJobError
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import disguised, may_see_all, shown
from fencepost.http.operations.accepted import accepted
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.submission import prepare as prepare_job
from fencepost.wire.flows import Count, FlowBody, FlowView, SubmittedFlow
from fencepost.wire.jobs import summary_of


async def submit_flow(call: Call[FlowBody, Nothing]) -> Reply:
    """Store all jobs of a flow or none, in one transaction."""
    session = call.session
    count = len(call.body.nodes)
    if count > HTTP_BATCH_MAX:
        raise HttpError(
            f"a flow has at most {HTTP_BATCH_MAX:,} nodes over HTTP, got {count:,}", status=422
        )
    nodes = await call.compute(lambda: _prepared(call))
    flow_id, jobs = call.actions.flows.new(nodes)
    known = await disguised(call, jobs)
    try:
        async with naming_existing_async(session):
            stored = await call.run(session.submit_all(known.jobs))
    except InvalidJobError as error:
        raise known.named(error) from None
    made = {name: accepted(job) for name, job in zip(nodes, stored, strict=True)}
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


async def _look(call: Call[Any, Any]) -> dict[str, Job]:
    """Return the jobs of the flow at the path, as far as the token reaches."""
    flow_id, queues = call.path["id"], call.principal.queues
    jobs = await call.run(call.actions.flows.get(flow_id, queues=queues))
    return dict(zip(jobs, await shown(call, list(jobs.values())), strict=True))


async def get_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Return the jobs of a flow by name."""
    jobs = await _look(call)
    views = {
        name: summary_of(job, is_full=may_see_all(call.principal, job))
        for name, job in jobs.items()
    }
    return Reply(FlowView(id=call.path["id"], jobs=views))


async def cancel_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Cancel whatever of a flow has not ended."""
    await _look(call)
    queues = call.principal.queues
    count = await call.run(call.actions.flows.cancel(call.path["id"], queues=queues))
    call.detail["count"] = count
    return Reply(Count(count))


async def retry_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Run again what failed or was cancelled, in order."""
    await _look(call)
    queues = call.principal.queues
    count = await call.run(call.actions.flows.retry(call.path["id"], queues=queues))
    call.detail["count"] = count
    return Reply(Count(count))
