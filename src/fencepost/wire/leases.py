"""The worker protocol on the wire: claims, and what is written under a lease."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.bounds import CLAIM_MAX, LEASE_TTL_DEFAULT
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.lifecycle import State
from fencepost.wire.bodies import Base64, Json, show
from fencepost.wire.jobs import PolicyView, policy_of
from fencepost.wire.terms import (
    ClaimLimit,
    ClaimTimeout,
    Duration,
    Fraction,
    JobId,
    LeaseTtl,
    QueueName,
    TypeName,
    Weight,
    WorkerName,
)

T = TypeVar("T")


class ClaimBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """As many jobs as a worker has free slots."""

    queues: dict[QueueName, Weight] | list[QueueName] | None = None
    """Weights by queue, or names; null means every queue, in equal turns."""
    types: list[TypeName] | None = None
    """The types that the worker can run; null means any."""
    limit: ClaimLimit = 1
    lease_ttl: LeaseTtl = LEASE_TTL_DEFAULT
    """How long each job is the worker's own, from now or from its last heartbeat."""
    worker: WorkerName = "http"
    """What the worker calls itself; unique, and new whenever it starts."""
    timeout: ClaimTimeout = 0.0
    """How long to wait for a job, if there is none now."""


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """What entitles a worker to write to a job, and until when."""

    token: str
    version: int
    """Rises with every claim of the job, though not by one: a fencing number for other systems."""
    expires_at: datetime


class DependencyView(msgspec.Struct, frozen=True, kw_only=True):
    """A job for which this one waited."""

    id: JobId
    type: str
    state: State
    node: str | None
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | UnsetType = UNSET


class ClaimedView(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a worker's hands."""

    id: JobId
    type: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    attempt_id: str
    previous_attempt_id: str | None
    timeout: float
    """The longest that this attempt may run, in seconds: its worker is to see to that, and no
    heartbeat extends its lease beyond."""
    lease_ttl: float
    lease: LeaseView
    policy: PolicyView
    key: str | None
    tags: dict[str, str]
    correlation_id: str | None
    flow: str | None
    dependencies: list[DependencyView]
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    payload_encrypted: str | UnsetType = UNSET
    checkpoint: Json = UNSET
    checkpoint_base64: Base64 = UNSET
    checkpoint_encrypted: str | UnsetType = UNSET


class ClaimReply(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs under new leases, and when to ask again."""

    jobs: list[ClaimedView]
    wait: float
    """Seconds after which there may be more, if nothing is known to come sooner."""


class Beat(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A lease to extend, but never past the job's execution timeout."""

    id: str
    token: str
    lease_ttl: LeaseTtl | None = None
    """From now on; null is what the claim asked for, or the job itself."""


class Ack(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The job is done; ``result`` is what it came to."""

    id: str
    token: str
    result: Json = UNSET
    result_base64: Base64 = UNSET


class Nack(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The attempt failed: what kind of failure it was decides whether there is another.

    ``unreadable`` is a payload that this version of the worker does not understand: the job is
    given back for others, uncounted, and has failed if none could read it for an hour.
    """

    id: str
    token: str
    category: Literal["temporary", "permanent", "timeout", "system", "unreadable"] = "temporary"
    message: str = ""
    code: str | None = None
    exception: str | None = None
    traceback: str | None = None
    retry_after: Duration | None = None
    """The next attempt waits at least so long."""


class Release(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The job is given back unrun, and not counted; with ``delay``, to be run later."""

    id: str
    token: str
    delay: Duration | None = None


class Checkpoint(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What the next attempt is to start from, should this one not end."""

    id: str
    token: str
    checkpoint: Json = UNSET
    checkpoint_base64: Base64 = UNSET


class ProgressBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How far the handler has come, from 0 to 1."""

    id: str
    token: str
    fraction: Fraction
    message: str = ""


class Items(msgspec.Struct, Generic[T], forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Many at once."""

    items: Annotated[list[T], Meta(extra_json_schema={"minItems": 1, "maxItems": CLAIM_MAX})]


class LeaseReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one write under a lease."""

    id: str
    status: int
    """200, or the status that it would have had alone."""
    state: State | None
    """The job's state now; null when there is no such job, or it has not changed."""
    expires_at: datetime | UnsetType = UNSET
    """Until when a lease lasts that was extended."""
    repeated: bool | UnsetType = UNSET
    """True when this token's settlement had been recorded before."""
    code: str | UnsetType = UNSET
    """Why it was refused."""
    detail: str | UnsetType = UNSET


class LeaseReplies(msgspec.Struct, frozen=True, kw_only=True):
    """A reply each, in the order in which they were given."""

    items: list[LeaseReply]


def claimed_of(job: ClaimedJob, dependencies: list[Dependency]) -> ClaimedView:
    """Return a claimed job as its worker sees it."""
    payload = show(job.payload)
    checkpoint = show(job.checkpoint)
    return ClaimedView(
        id=job.id,
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        attempt_id=job.attempt_id,
        previous_attempt_id=job.previous_attempt_id,
        timeout=job.policy.timeout,
        lease_ttl=job.lease_ttl,
        lease=LeaseView(
            token=job.lease.token, version=job.lease.version, expires_at=job.lease.expires_at
        ),
        policy=policy_of(job.policy),
        key=job.key,
        tags=job.tags,
        correlation_id=job.correlation_id,
        flow=job.flow,
        dependencies=[_dependency(each) for each in dependencies],
        payload=payload.json,
        payload_base64=payload.base64,
        payload_encrypted=payload.encrypted,
        checkpoint=checkpoint.json,
        checkpoint_base64=checkpoint.base64,
        checkpoint_encrypted=checkpoint.encrypted,
    )


def _dependency(each: Dependency) -> DependencyView:
    result = show(each.result)
    return DependencyView(
        id=each.job_id,
        type=each.type,
        state=each.state,
        node=each.node,
        result=result.json,
        result_base64=result.base64,
        result_encrypted=result.encrypted,
    )
