"""Jobs on the wire: as submitted, as listed, as looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fencepost.core.job import Failure, Job, Ownership, Progress
from fencepost.core.lifecycle import State
from fencepost.core.payload import NULL
from fencepost.core.policy import Policy
from fencepost.core.priority import Priority
from fencepost.core.readable import readable
from fencepost.wire.bodies import Base64, Json, Shown, body_shown, show

Duration = float | str
"""Seconds, or text such as "90s"."""


class RetryOptions(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True
):
    """How often and how patiently a job is tried again."""

    max_attempts: int | None = None
    max_retries: int | None = None
    backoff: Literal["exponential", "linear", "constant"] | None = None
    initial_delay: Duration | None = None
    max_delay: Duration | None = None
    multiplier: float | None = None
    jitter: Literal["full"] | float | None = None
    on_timeout: bool | None = None
    on_system: bool | None = None


class Submission(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True
):
    """A job to be stored. ``payload`` as an object is the handler's keyword arguments."""

    type: str
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    queue: str | None = None
    priority: int | str | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    key: str | None = None
    on_duplicate: Literal["return", "reject"] | None = None
    key_window: Duration | None = None
    tags: dict[str, str] | None = None
    correlation_id: str | None = None
    callback_url: str | None = None
    concurrency_key: str | None = None
    timeout: Duration | None = None
    lease_ttl: Duration | None = None
    lifetime: Duration | None = None
    retry: RetryOptions | None = None
    after: list[str] | None = None
    after_any: list[str] | None = None
    accept_failures: bool | None = None


class Batch(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Many jobs in one request; with ``atomic``, all are stored or none."""

    jobs: list[Submission]
    atomic: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is stored, or, of a batch, that a key returned."""

    id: str
    type: str
    state: State
    duplicate: bool = False
    run_at: datetime | UnsetType = UNSET
    """When a delayed job falls due."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a batch that was not stored, and why."""

    code: str
    detail: str
    existing: str | UnsetType = UNSET
    """The job that holds the key, where that is why."""


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each job, in the order in which they were given."""

    jobs: list[Accepted | Refused]


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A job as lists show it, without its payload and result."""

    id: str
    type: str
    queue: str
    priority: int
    state: State
    attempt: int
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    expires_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
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


_SUMMARY = JobSummary.__struct_fields__
_BODIES = ("payload", "result", "checkpoint")


def summary_of(job: Job) -> JobSummary:
    """Return a job as lists show it."""
    return JobSummary(**_summary(job))


def existing_of(job: Job) -> ExistingJob:
    """Return the job that a key returned."""
    return ExistingJob(**_summary(job))


def _summary(job: Job) -> dict[str, Any]:
    seen = readable(job)
    return {name: getattr(seen, name) for name in _SUMMARY}


def view_of(job: Job) -> JobView:
    """Return all there is to see of a job."""
    fields = _summary(job)
    for name in _BODIES:
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
