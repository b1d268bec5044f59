"""Leases: which ones workers hold; and the worker protocol, of claims and writes under a lease."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.bounds import CLAIM_MAX, LEASE_TTL_DEFAULT, PAGE_DEFAULT
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.lifecycle import State
from fencepost.wire.bodies import Base64, Json, shown_as, shown_fields
from fencepost.wire.jobs import PolicyView, policy_of
from fencepost.wire.terms import (
    ClaimLimit,
    ClaimTimeout,
    Duration,
    Fraction,
    JobId,
    LeaseTtl,
    PageLimit,
    QueueName,
    Strict,
    TypeName,
    Weight,
    WorkerName,
)

T = TypeVar("T")


class LeaseQuery(Strict, frozen=True, kw_only=True):
    """Whose leases, and how many at most."""

    worker: str | None = None
    queue: QueueName | None = None
    limit: PageLimit = PAGE_DEFAULT


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A running job and the lease under which it runs."""

    job_id: JobId
    type: str
    queue: str
    attempt: int
    worker: str
    fence: int
    """The version of the lease."""
    started_at: datetime | None
    expires_at: datetime
    is_expired: bool
    """True between the end of the lease and its recovery."""


class HeldLeases(msgspec.Struct, frozen=True, kw_only=True):
    """Leases, those that end first at the top."""

    leases: list[HeldLease]
    is_complete: bool
    """False if more than 1,000 jobs run, of which the newest were looked at."""


class ClaimBody(Strict, frozen=True, kw_only=True):
    """A claim of as many jobs as the worker has free slots."""

    queues: dict[QueueName, Weight] | list[QueueName] | None = None
    """Weights by queue, or names; null means every queue, in equal turns."""
    types: Annotated[list[TypeName], Meta(extra_json_schema={"minItems": 1})] | None = None
    """The types that the worker can run; null means any."""
    limit: ClaimLimit = 1
    lease_ttl: LeaseTtl = LEASE_TTL_DEFAULT
    """How long each job belongs to the worker, from now or from its last heartbeat."""
    worker: WorkerName = "http"
    """The name of the worker: unique, and new at each start."""
    timeout: ClaimTimeout = 0.0
    """How long to wait for a job if there is none now."""


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The right of a worker to write to a job, until it expires."""

    token: str
    version: int
    """Rises with each claim of the job, not by one: a fencing token for other systems."""
    expires_at: datetime


class DependencyView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that this one waited for."""

    id: JobId
    type: str
    state: State
    node: str | None
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | UnsetType = UNSET


class ClaimedView(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed job."""

    id: JobId
    type: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    attempt_id: str
    previous_attempt_id: str | None
    timeout: float
    """How long this attempt may run, in seconds. The worker has to enforce it; no heartbeat extends
    the lease past it."""
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
    """Jobs under new leases, and when to claim again."""

    jobs: list[ClaimedView]
    wait: float
    """Seconds after which there may be more jobs."""


class LeaseWrite(Strict, frozen=True, kw_only=True):
    """A job, and the token of the lease under which is written to it."""

    id: str
    token: str


class WireBeat(LeaseWrite, frozen=True, kw_only=True):
    """A lease to extend, but never past the job's execution timeout."""

    lease_ttl: LeaseTtl | None = None
    """From now; null: as in the claim or in the job."""


class Ack(LeaseWrite, frozen=True, kw_only=True):
    """A job that is done, and its result."""

    result: Json = UNSET
    result_base64: Base64 = UNSET


class Nack(LeaseWrite, frozen=True, kw_only=True):
    """A failed attempt; the category decides whether there is another.

    ``unreadable`` is a payload that this version of the worker does not understand: the job is
    released to other workers, uncounted, and fails if none could read it for an hour.
    """

    category: Literal["temporary", "permanent", "timeout", "system", "unreadable"] = "temporary"
    message: str = ""
    code: str | None = None
    exception: str | None = None
    traceback: str | None = None
    retry_after: Duration | None = None
    """The least delay before the next attempt."""


class Release(LeaseWrite, frozen=True, kw_only=True):
    """A job that is given back unrun and uncounted; with ``delay``, to run later."""

    delay: Duration | None = None


class Checkpoint(LeaseWrite, frozen=True, kw_only=True):
    """What the next attempt starts from, if this one does not finish."""

    checkpoint: Json = UNSET
    checkpoint_base64: Base64 = UNSET


class ProgressBody(LeaseWrite, frozen=True, kw_only=True):
    """The progress of a handler, from 0 to 1."""

    fraction: Fraction
    message: str = ""


class Items(Strict, Generic[T], frozen=True, kw_only=True):
    """Many in one request."""

    items: Annotated[list[T], Meta(extra_json_schema={"minItems": 1, "maxItems": CLAIM_MAX})]


class LeaseReply(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one write under a lease."""

    id: str
    status: int
    """200, or the status that it would have had as a single request."""
    state: State | None
    """The job's state now; null if there is no such job, or it has not changed."""
    expires_at: datetime | UnsetType = UNSET
    """When an extended lease expires."""
    repeated: bool | UnsetType = UNSET
    """True if this token's settlement was already recorded."""
    code: str | UnsetType = UNSET
    """Why it was refused."""
    detail: str | UnsetType = UNSET


class LeaseReplies(msgspec.Struct, frozen=True, kw_only=True):
    """One reply for each item, in the order of the request."""

    items: list[LeaseReply]


_SAME = (
    *("id", "type", "queue", "priority", "attempt", "max_attempts", "attempt_id"),
    *("previous_attempt_id", "lease_ttl", "key", "tags", "correlation_id", "flow"),
)
"""Fields of a claimed job that are sent as they are."""


def claimed_of(job: ClaimedJob, dependencies: list[Dependency]) -> ClaimedView:
    """Return a claimed job in the form in which its worker gets it."""
    lease = job.lease
    return ClaimedView(
        **{name: getattr(job, name) for name in _SAME},
        timeout=job.policy.timeout,
        lease=LeaseView(token=lease.token, version=lease.version, expires_at=lease.expires_at),
        policy=policy_of(job.policy),
        dependencies=[
            shown_as(DependencyView, each, id=each.job_id, **shown_fields(result=each.result))
            for each in dependencies
        ],
        **shown_fields(payload=job.payload, checkpoint=job.checkpoint),
    )
