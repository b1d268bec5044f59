"""Routes that submit."""

from __future__ import annotations

from fencepost.core.bounds import HTTP_BATCH_BYTES_MAX
from fencepost.http.operations import events, flows
from fencepost.http.operations import submit as submitting
from fencepost.http.routes.route import SUBMIT, Route
from fencepost.wire import jobs as job_wire
from fencepost.wire.events import EventBody, Sent
from fencepost.wire.flows import FlowBody, SubmittedFlow
from fencepost.wire.jobs import Accepted

REFUSALS = (
    "duplicate_key",
    "payload_too_large",
    "invalid_job",
    "invalid_key",
    "invalid_payload",
    "invalid_duration",
    "invalid_callback",
    "dependency",
    "too_many_lanes",
)

ROUTES = [
    Route(
        method="POST",
        path="/v1/jobs",
        operation=submitting.submit_job,
        summary="Submit a job",
        tag="jobs",
        roles=SUBMIT,
        body=job_wire.Submission,
        body_max=HTTP_BATCH_BYTES_MAX,
        replies={201: Accepted, 200: job_wire.ExistingJob},
        errors=REFUSALS,
    ),
    Route(
        method="POST",
        path="/v1/jobs/batch",
        operation=submitting.submit_batch,
        summary="Submit many jobs",
        tag="jobs",
        roles=SUBMIT,
        body=job_wire.Batch,
        body_max=HTTP_BATCH_BYTES_MAX,
        is_batch=True,
        replies={201: job_wire.BatchReply},
        errors=REFUSALS,
    ),
    Route(
        method="POST",
        path="/v1/events/{name}",
        operation=events.send_event,
        summary="Send an event",
        tag="events",
        roles=SUBMIT,
        body=EventBody,
        is_body_optional=True,
        body_max=HTTP_BATCH_BYTES_MAX,
        replies={202: Sent},
        errors=(
            "invalid_event",
            "invalid_payload",
            "payload_too_large",
            "invalid_key",
            "too_many_lanes",
        ),
    ),
    Route(
        method="POST",
        path="/v1/flows",
        operation=flows.submit_flow,
        summary="Submit jobs that wait for each other",
        tag="flows",
        roles=SUBMIT,
        body=FlowBody,
        body_max=HTTP_BATCH_BYTES_MAX,
        is_batch=True,
        replies={201: SubmittedFlow},
        errors=REFUSALS,
    ),
]
