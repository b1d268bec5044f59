"""Routes for workers."""

from __future__ import annotations

from fencepost.core.bounds import HTTP_BATCH_BYTES_MAX, RESULT_BYTES_MAX
from fencepost.http.operations import claims, leases
from fencepost.http.routes.route import WORK, OneOrMany, Route
from fencepost.wire import leases as lease_wire

REPLIES = {200: lease_wire.LeaseReply | lease_wire.LeaseReplies}

ROUTES = [
    Route(
        method="POST",
        path="/v1/claims",
        operation=claims.claim_jobs,
        summary="Claim jobs under leases",
        tag="work",
        roles=WORK,
        body=lease_wire.ClaimBody,
        replies={200: lease_wire.ClaimReply},
        errors=("invalid_job", "invalid_duration"),
    ),
    Route(
        method="POST",
        path="/v1/leases/heartbeat",
        operation=leases.heartbeat,
        summary="Extend leases",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.Beat, lease_wire.Items[lease_wire.Beat]),
        body_max=HTTP_BATCH_BYTES_MAX,
        replies=REPLIES,
        errors=("stale_lease", "invalid_duration"),
    ),
    Route(
        method="POST",
        path="/v1/leases/ack",
        operation=leases.acknowledge,
        summary="Record that jobs are done",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.Ack, lease_wire.Items[lease_wire.Ack]),
        body_max=RESULT_BYTES_MAX,
        is_batch=True,
        replies=REPLIES,
        errors=("stale_lease", "payload_too_large", "invalid_payload"),
    ),
    Route(
        method="POST",
        path="/v1/leases/nack",
        operation=leases.reject,
        summary="Record that attempts failed",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.Nack, lease_wire.Items[lease_wire.Nack]),
        body_max=HTTP_BATCH_BYTES_MAX,
        is_batch=True,
        replies=REPLIES,
        errors=("stale_lease", "invalid_duration"),
    ),
    Route(
        method="POST",
        path="/v1/leases/release",
        operation=leases.release,
        summary="Give jobs back unrun",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.Release, lease_wire.Items[lease_wire.Release]),
        body_max=HTTP_BATCH_BYTES_MAX,
        replies=REPLIES,
        errors=("stale_lease", "invalid_duration"),
    ),
    Route(
        method="POST",
        path="/v1/leases/checkpoint",
        operation=leases.save_checkpoint,
        summary="Keep what the next attempt is to start from",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.Checkpoint, lease_wire.Items[lease_wire.Checkpoint]),
        body_max=HTTP_BATCH_BYTES_MAX,
        is_batch=True,
        replies=REPLIES,
        errors=("stale_lease", "payload_too_large", "invalid_payload"),
    ),
    Route(
        method="POST",
        path="/v1/leases/progress",
        operation=leases.save_progress,
        summary="Keep how far handlers have come",
        tag="work",
        roles=WORK,
        body=OneOrMany(lease_wire.ProgressBody, lease_wire.Items[lease_wire.ProgressBody]),
        body_max=HTTP_BATCH_BYTES_MAX,
        replies=REPLIES,
        errors=("stale_lease", "invalid_job"),
    ),
]
