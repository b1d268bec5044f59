"""Jobs on the wire: as submitted, as listed, as looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.crypto.envelope import readable
from fencepost.core.job.job import Failure, Job, Ownership, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.payload import NULL
from fencepost.wire.bodies import Base64, Json, Shown, body_shown, show
from fencepost.wire.terms import (
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
    Tags,
    TypeName,
    either,
)


class RetryOptions(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True
):
    """How often and how patiently a job is tried again."""

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
    """The share of a delay that chance decides; ``full`` is all of it."""
    on_timeout: bool | None = None
    """Whether an attempt that took too long is followed by another."""
    on_system: bool | None = None
    """Whether one that its worker was lost with is."""


class Submission(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True
):
    """A job to be stored. ``payload`` as an object is the handler's keyword arguments."""

    __exclusive__: ClassVar = (("delay", "run_at"), ("after", "after_any"))

    type: TypeName
    """The name of the task; those that begin with ``fencepost.`` are refused."""
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    """A payload that is no JSON; give one of the two."""
    queue: QueueName | None = None
    priority: PriorityNumber | PriorityName | None = None
    """0 (critical) goes first, 4 (bulk) last."""
    delay: Duration | None = None
    run_at: datetime | None = None
    """A time with its zone; give this or ``delay``."""
    key: IdempotencyKey | None = None
    """Of one type, there is one job with this key, while it is live or for a window."""
    on_duplicate: Literal["return", "reject"] | None = None
    """When the key is held: answer with the job that has it, or refuse with 409."""
    key_window: Duration | Literal["active"] | None = None
    """How long the key is held from now on; ``active``: until the job has ended."""
    tags: Tags | None = None
    """To find jobs by; names that begin with ``fencepost.`` are refused."""
    correlation_id: CorrelationId | None = None
    callback_url: CallbackUrl | None = None
    """Where a signed webhook goes when the job has ended."""
    concurrency_key: ConcurrencyKey | None = None
    """Of the jobs of one type and this key, few run at once."""
    timeout: Duration | None = None
    """The longest that an attempt may run; no longer than the app allows."""
    lease_ttl: LeaseTtl | None = None
    lifetime: Duration | None = None
    """After this it is not started any more."""
    retry: RetryOptions | None = None
    after: DependencyIds | None = None
    """The jobs that must have completed before this one starts."""
    after_any: DependencyIds | None = None
    """The jobs of which one must have completed."""
    accept_failures: bool | None = None
    """With ``after``: that they have ended is enough, however they did."""


class Batch(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Many jobs in one request; with ``atomic``, all are stored or none."""

    jobs: Annotated[
        list[Submission], Meta(extra_json_schema={"minItems": 1, "maxItems": HTTP_BATCH_MAX})
    ]
    atomic: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is stored, or, of a batch, that a key returned."""

    id: JobId
    type: str
    state: State
    duplicate: bool = False
    """True when the key was held, and this is the job that holds it."""
    run_at: datetime | UnsetType = UNSET
    """When a delayed job falls due."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was not stored, and why."""

    code: str
    detail: str
    existing: str | UnsetType = UNSET
    """The job that holds the key, where that is why."""


Answer = Annotated[Any, either(Accepted, Refused)]


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each job, in the order in which they were given."""

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
    """The number of the attempt that runs, or ran last, from 1; 0: it never ran."""
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    """Not before this does it start."""
    expires_at: datetime
    """After this it is not started any more."""
    scheduled_at: datetime | None
    """When it last became claimable."""
    started_at: datetime | None
    completed_at: datetime | None
    """When it ended, however it did."""
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
    """There when payload, result, failure and the like are not for this token: another submitted
    the job, and this one has not the role ``read``."""


class ExistingJob(JobSummary, frozen=True, kw_only=True):
    """The job that a key returned in the place of a new one."""

    duplicate: Literal[True] = True


class BackoffView(msgspec.Struct, frozen=True, kw_only=True):
    """How long a job waits after a failed attempt, in seconds."""

    strategy: str
    initial_delay: float
    max_delay: float
    multiplier: float
    jitter: float
    delays: tuple[float, ...]
    """Of a function: what it said when the policy was made."""
    function: str | None
    """The name of a function that is asked at every failure, where it is at hand."""


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a job is run and tried again; times are in seconds."""

    max_attempts: int
    backoff: BackoffView
    on_timeout: bool
    on_system: bool
    timeout: float
    lifetime: float
    lease_ttl: float | None
    max_running_per_key: int | None


class JobView(JobSummary, frozen=True, kw_only=True):
    """A job with all there is to see of it."""

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


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and where the next page begins."""

    jobs: list[JobSummary]
    next: str | None
    """Give it as ``after`` to go on; null when there are no more."""


_SUMMARY = tuple(name for name in JobSummary.__struct_fields__ if name != "withheld")
_PRIVATE = ("failure", "progress", "callback_url")
"""What a summary shows of what a job holds, beside how it stands."""
_BODIES = ("payload", "result", "checkpoint")


def summary_of(job: Job, *, is_full: bool = True) -> JobSummary:
    """Return a job as lists show it; unless *is_full*, how it stands alone."""
    return JobSummary(**_summary(job, is_full=is_full))


def existing_of(job: Job, *, is_full: bool = True) -> ExistingJob:
    """Return the job that a key returned."""
    return ExistingJob(**_summary(job, is_full=is_full))


def _summary(job: Job, *, is_full: bool) -> dict[str, Any]:
    seen = readable(job)
    fields = {name: getattr(seen, name) for name in _SUMMARY}
    return fields if is_full else {**fields, **dict.fromkeys(_PRIVATE), "withheld": True}


def view_of(job: Job, *, is_full: bool = True) -> JobView:
    """Return all there is to see of a job; unless *is_full*, without payload and the like."""
    fields = _summary(job, is_full=is_full)
    for name in _BODIES if is_full else ():
        shown = show(getattr(job, name))
        fields[name] = shown.json
        fields[f"{name}_base64"] = shown.base64
        fields[f"{name}_encrypted"] = shown.encrypted
    return JobView(**fields, policy=policy_of(job.policy))


def policy_of(policy: Policy) -> PolicyView:
    """Return a policy with its defaults written out: a reader should not have to know them."""
    fields = msgspec.structs.asdict(policy)
    fields["backoff"] = BackoffView(**msgspec.structs.asdict(policy.backoff))
    return PolicyView(**fields)


def job_of(view: JobView) -> Job:
    """Return the job that a view shows; what it waits for is not on the wire."""
    fields = {name: getattr(view, name) for name in _SUMMARY}
    bodies = {
        name: body_shown(
            Shown(
                json=getattr(view, name),
                base64=getattr(view, f"{name}_base64"),
                encrypted=getattr(view, f"{name}_encrypted"),
            )
        )
        for name in _BODIES
    }
    # A payload there always is; of the others, null says that there is none.
    is_done = view.state is State.COMPLETED
    return Job(
        **{**fields, "priority": Priority(view.priority)},
        policy=msgspec.convert(view.policy, Policy, from_attributes=True),
        payload=bodies["payload"],
        result=bodies["result"] if is_done else None,
        checkpoint=None if bodies["checkpoint"] == NULL else bodies["checkpoint"],
    )
