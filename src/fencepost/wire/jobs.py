"""Jobs, as they are submitted and as they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.encryption import readable
from fencepost.core.job.job import Encoding, Failure, Job, Ownership, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.values.payload import NULL
from fencepost.wire.bodies import Base64, Json, body_in, shown_as, shown_fields
from fencepost.wire.bounds import HTTP_BATCH_MAX, PREVIEW_MAX
from fencepost.wire.terms import (
    AnyDependencyIds,
    AttemptCount,
    CallbackUrl,
    ConcurrencyKey,
    CorrelationId,
    DependencyIds,
    Duration,
    IdempotencyKey,
    Jitter,
    JobId,
    LeaseTtl,
    Multiplier,
    PriorityName,
    PriorityNumber,
    QueueName,
    RetryCount,
    Strict,
    Tags,
    TypeName,
    either,
)


class RetryOptions(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """How often a job is retried, and with what delays."""

    __exclusive__: ClassVar = (("max_attempts", "max_retries"),)

    max_attempts: AttemptCount | None = None
    """Runs in all, the first included."""
    max_retries: RetryCount | None = None
    """Runs after the first; give one of the two."""
    backoff: Literal["exponential", "linear", "constant"] | None = None
    initial_delay: Duration | None = None
    max_delay: Duration | None = None
    multiplier: Multiplier | None = None
    jitter: Jitter | None = None
    """The share of a delay that is random; ``full`` is all of it."""
    on_timeout: bool | None = None
    """Whether to retry after an attempt that took too long."""
    on_system: bool | None = None
    """Whether to retry after an attempt whose worker was lost."""


class Submission(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """A job to store. ``payload`` as an object is the handler's keyword arguments."""

    __exclusive__: ClassVar = (("delay", "run_at"), ("after", "after_any"))

    type: TypeName
    """The name of the task; names that begin with ``fencepost.`` are refused."""
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    """A payload that is not JSON; give one of the two."""
    queue: QueueName | None = None
    priority: PriorityNumber | PriorityName | None = None
    """0 (critical) goes first, 4 (bulk) last."""
    delay: Duration | None = None
    run_at: datetime | None = None
    """A time with its zone; give this or ``delay``."""
    key: IdempotencyKey | None = None
    """A type has one job with this key, while that job is live or for a window."""
    on_duplicate: Literal["return", "reject"] | None = None
    """If another job holds the key: return that job, or refuse with 409."""
    key_window: Duration | Literal["active"] | None = None
    """How long the key is held from now; ``active``: until the job has ended."""
    tags: Tags | None = None
    """Labels to find jobs by; names that begin with ``fencepost.`` are refused."""
    correlation_id: CorrelationId | None = None
    callback_url: CallbackUrl | None = None
    """Where a signed webhook goes when the job has ended."""
    concurrency_key: ConcurrencyKey | None = None
    """Limits how many jobs of this type and key run at once."""
    timeout: Duration | None = None
    """How long an attempt may run; at most what the app allows."""
    lease_ttl: LeaseTtl | None = None
    lifetime: Duration | None = None
    """After this the job is not started any more."""
    retry: RetryOptions | None = None
    after: DependencyIds | None = None
    """The jobs that must have completed before this one starts."""
    after_any: AnyDependencyIds | None = None
    """The jobs of which one must have completed."""
    accept_failures: bool | None = None
    """With ``after``: it is enough that they have ended, in success or failure."""


Differs = tuple[str, ...] | None | UnsetType
"""Paths of top-level fields, such as ``$.subject``: none if the payloads are the same, null if they
cannot be compared. Absent if the token may not see the payload."""


class Batch(Strict, frozen=True, kw_only=True):
    """Many jobs in one request; with ``atomic``, all are stored or none."""

    jobs: Annotated[
        list[Submission], Meta(extra_json_schema={"minItems": 1, "maxItems": HTTP_BATCH_MAX})
    ]
    atomic: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A stored job, or, in a batch, the job that holds the key."""

    id: JobId
    type: str
    state: State
    duplicate: bool = False
    """True if this is an earlier job that holds the key."""
    differs: Differs = UNSET
    """Of a duplicate: where its payload differs from the one that was sent."""
    run_at: datetime | UnsetType = UNSET
    """When a delayed job becomes due."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was not stored, and why."""

    code: str
    detail: str
    existing: str | UnsetType = UNSET
    """The job that holds the key, if that is why."""
    differs: Differs = UNSET
    """Where its payload differs from the one that was sent."""


Answer = Annotated[Any, either(Accepted, Refused)]


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of each job, in the order of the request."""

    jobs: list[Answer]


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A job as lists show it, without its payload and result."""

    id: JobId
    type: str
    queue: str
    priority: int
    """0 (critical) goes first, 4 (bulk) last."""
    state: State
    attempt: int
    """The number of the present or last attempt, from 1; 0: it never ran."""
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    """The job does not start before this."""
    expires_at: datetime
    """After this the job is not started any more."""
    scheduled_at: datetime | None
    """When it last became claimable."""
    started_at: datetime | None
    completed_at: datetime | None
    """When it ended, in success or failure."""
    lease: Ownership | None
    lease_version: int
    failure: Failure | None
    progress: Progress | None
    key: str | None
    tags: dict[str, str]
    correlation_id: str | None
    replay_of: str | None
    callback_url: str | None
    flow: str | None
    node: str | None
    concurrency_key: str | None
    withheld: Literal[True] | UnsetType = UNSET
    """Present if payload, result, failure and the like are hidden from this token: another token
    submitted the job, and this one lacks the role ``read``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, ready to be written as JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def to_json(self) -> str:
        """Return the same as JSON."""
        return msgspec.json.encode(self).decode()


class ListedJob(JobSummary, frozen=True, kw_only=True):
    """A job as a search finds it."""

    preview: str | UnsetType = UNSET
    """The beginning of the payload as JSON, 120 characters at most. Absent if the payload is not
    JSON, is encrypted or is hidden from this token."""


class ExistingJob(JobSummary, frozen=True, kw_only=True):
    """The job that holds the key, returned in place of a new one."""

    duplicate: Literal[True] = True
    differs: Differs = UNSET
    """Where its payload differs from the one that was sent."""


class BackoffView(msgspec.Struct, frozen=True, kw_only=True):
    """How long a job waits after a failed attempt, in seconds."""

    strategy: str
    initial_delay: float
    max_delay: float
    multiplier: float
    jitter: float
    delays: tuple[float, ...]
    """If a function decides: its values when the policy was made."""
    function: str | None
    """The name of a function that is called after each failure, where it is available."""


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a job is run and retried; times are in seconds."""

    max_attempts: int
    backoff: BackoffView
    on_timeout: bool
    on_system: bool
    timeout: float
    lifetime: float
    lease_ttl: float | None
    max_running_per_key: int | None


class JobView(JobSummary, frozen=True, kw_only=True):
    """A job with all its details."""

    policy: PolicyView
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    payload_encrypted: str | UnsetType = UNSET
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | UnsetType = UNSET
    checkpoint: Json = UNSET
    checkpoint_base64: Base64 = UNSET
    checkpoint_encrypted: str | UnsetType = UNSET


class WireJobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, in the order asked for, and where the next page begins."""

    jobs: list[ListedJob]
    next: str | None
    """Give it as ``after`` to go on; null when there are no more."""
    looked: int | None = None
    """How many jobs were read for conditions without an index; null if none had to be. A page with
    fewer jobs than its limit and a ``next`` ends where 10,000 were read."""
    unreadable: int = 0
    """How many of those could not be compared, being encrypted or not JSON; they do not match."""


class Count(msgspec.Struct, frozen=True):
    """How many jobs were changed."""

    count: int


_SUMMARY = tuple(name for name in JobSummary.__struct_fields__ if name != "withheld")
_PRIVATE = ("failure", "progress", "callback_url")
"""Fields of a summary that may hold content of users."""


_WITHHELD: dict[str, Any] = {**dict.fromkeys(_PRIVATE), "withheld": True}


def summary_of(job: Job, *, is_full: bool) -> JobSummary:
    """Return a job as lists show it; unless *is_full*, without content of users."""
    return shown_as(JobSummary, readable(job), **({} if is_full else _WITHHELD))


def listed_of(job: Job, *, is_full: bool) -> ListedJob:
    """Return a job as a search finds it; unless *is_full*, without content of users."""
    others: dict[str, Any] = _WITHHELD
    if is_full:
        is_json = job.payload_body.encoding is Encoding.JSON
        others = {"preview": _preview(job.payload_body.data)} if is_json else {}
    return shown_as(ListedJob, readable(job), **others)


def _preview(json: bytes) -> str:
    # No character has more than four bytes; the last may be cut in two.
    return json[: 4 * PREVIEW_MAX].decode(errors="ignore")[:PREVIEW_MAX]


def existing_of(job: Job, differs: tuple[str, ...] | None, *, is_full: bool) -> ExistingJob:
    """Return the job that holds a key, and where its payload differs from the one submitted."""
    others = {"differs": differs} if is_full else _WITHHELD
    return shown_as(ExistingJob, readable(job), **others)


def view_of(job: Job, *, is_full: bool) -> JobView:
    """Return a job with its details; unless *is_full*, without content of users."""
    others = _WITHHELD
    if is_full:
        others = shown_fields(
            payload=job.payload_body, result=job.result_body, checkpoint=job.checkpoint_body
        )
    return shown_as(JobView, readable(job), policy=policy_of(job.policy), **others)


def policy_of(policy: Policy) -> PolicyView:
    """Return a policy with its defaults written out."""
    return msgspec.convert(policy, PolicyView, from_attributes=True)


def job_of(view: JobView) -> Job:
    """Return the job that was sent, without its dependencies, which are not."""
    fields = {name: getattr(view, name) for name in _SUMMARY}
    # There is always a payload; for the others, null means none.
    is_done = view.state is State.COMPLETED
    checkpoint = body_in(view, "checkpoint")
    return Job(
        **{**fields, "priority": Priority(view.priority)},
        policy=msgspec.convert(view.policy, Policy, from_attributes=True),
        payload_body=body_in(view, "payload"),
        result_body=body_in(view, "result") if is_done else None,
        checkpoint_body=None if checkpoint == NULL else checkpoint,
    )
