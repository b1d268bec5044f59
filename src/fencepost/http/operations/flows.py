"""Flows: jobs that are submitted together and wait for each other."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fencepost.actions import flows as scripts
from fencepost.actions.session import accepted
from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.job.job import Job, NewJob
from fencepost.errors import InvalidJobError
from fencepost.handles.flows import new_flow, prepare
from fencepost.handles.job import naming_existing_async
from fencepost.http.auth.scope import disguised, may_see_all, shown
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.submission import prepare as prepare_job
from fencepost.store.interface.replies import Duplicate
from fencepost.wire.jobs import Accepted, JobSummary, Submission, summary_of
from fencepost.wire.terms import NodeName


class FlowBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Jobs by name; ``after`` and ``after_any`` name others of the flow, or stored jobs by id."""

    nodes: Annotated[
        dict[NodeName, Submission],
        Meta(extra_json_schema={"minProperties": 1, "maxProperties": HTTP_BATCH_MAX}),
    ]


class SubmittedFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that is stored."""

    id: str
    jobs: dict[str, Accepted]
    """Each behind those that it waits for."""


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as it stands."""

    id: str
    jobs: dict[str, JobSummary]


class Count(msgspec.Struct, frozen=True):
    """How many jobs it concerned."""

    count: int


async def submit_flow(call: Call[FlowBody, Nothing]) -> Reply:
    """Store all jobs of a flow or none, in one transaction."""
    session = call.session
    count = len(call.body.nodes)
    if count > HTTP_BATCH_MAX:
        raise HttpError(
            f"a flow has at most {HTTP_BATCH_MAX:,} nodes over HTTP, got {count:,}", status=422
        )
    flow_id, jobs = new_flow(session, await call.compute(lambda: _prepared(call)))
    known = await disguised(call, jobs)
    try:
        async with naming_existing_async(session):
            replies = [accepted(reply) for reply in await session.submit_all_async(known.jobs)]
    except InvalidJobError as error:
        raise known.named(error) from None
    stored = {
        str(job.node): Accepted(
            id=reply.job_id,
            type=reply.type,
            state=reply.state,
            duplicate=isinstance(reply, Duplicate),
        )
        for job, reply in zip(jobs, replies, strict=True)
    }
    location = {"location": f"/v1/flows/{flow_id}"}
    return Reply(SubmittedFlow(id=flow_id, jobs=stored), 201, location)


def _prepared(call: Call[FlowBody, Nothing]) -> list[NewJob]:
    """Return the jobs of a flow, in order."""
    return prepare(
        {
            name: prepare_job(call.session, each, call.principal)
            for name, each in call.body.nodes.items()
        }
    )


async def _look(call: Call[Any, Any]) -> dict[str, Job]:
    """Return the jobs of the flow at the path, as far as the token reaches."""
    flow_id, queues = call.path["id"], call.principal.queues
    jobs: dict[str, Job] = await call.session.run_async(
        scripts.get(call.session, flow_id, queues=queues)
    )
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
    count = await call.session.run_async(
        scripts.cancel(call.session, call.path["id"], queues=queues)
    )
    call.detail["count"] = count
    return Reply(Count(count))


async def retry_flow(call: Call[Nothing, Nothing]) -> Reply:
    """Run again what failed or was cancelled, in order."""
    await _look(call)
    queues = call.principal.queues
    count = await call.session.run_async(
        scripts.retry(call.session, call.path["id"], queues=queues)
    )
    call.detail["count"] = count
    return Reply(Count(count))
