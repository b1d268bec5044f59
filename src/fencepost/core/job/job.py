"""The values that travel: a job as submitted, as claimed, as read; leases and attempts.

All are frozen and were checked when they were made. Those that come by the thousand a second are
hidden from the garbage collector (``gc=False``): they hold plain values and no cycles, and scanning
them took a sixth of a worker's time.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import msgspec
from msgspec.structs import asdict

from fencepost.core.flows.dependencies import Dependencies, Waits
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy, Priority
from fencepost.core.values.names import DEFAULT_QUEUE, attempt_id, previous_attempt_id


class Encoding(StrEnum):
    """How the bytes of a payload or result are to be read."""

    JSON = "json"
    BINARY = "binary"
    ENCRYPTED = "encrypted"
    """An envelope (``core/encryption.py``)."""


class Category(StrEnum):
    """Every failure has exactly one (S1-80)."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SYSTEM = "system"


class Body(msgspec.Struct, gc=False, frozen=True):
    """A payload or a result: bytes, and how to read them."""

    data: bytes
    encoding: Encoding = Encoding.JSON

    @property
    def value(self) -> Any:
        """What it holds, as plain Python values; an ``UnreadableValue`` if that is impossible."""
        from fencepost.core.values.payload import value_of  # which needs this module

        return value_of(self)


EMPTY = Body(b"{}")


class Failure(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Why an attempt did not succeed."""

    category: Category
    message: str
    code: str | None = None
    exception: str | None = None
    """The qualified name of the exception's class."""
    traceback: str | None = None
    failed_dependency: str | None = None
    """The job that failed, when this one only waited for it."""


class Progress(TypedDict):
    """How far a handler says it has come."""

    fraction: float
    message: str
    at: NotRequired[datetime]
    """When it was stored, by the store's clock; set by the store."""


class NewJob(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A job that has been checked and encoded, ready to be enqueued. It has no id yet (S1-2)."""

    type: str
    payload: Body = EMPTY
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL
    policy: Policy = DEFAULT_POLICY
    delay: float = 0.0
    """Seconds from the store's now; ``run_at`` wins when both are given."""
    run_at: datetime | None = None
    key: Key | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    after: Dependencies | None = None
    flow: str | None = None
    """The id of the flow with which it was submitted."""
    node: str | None = None
    """Its name there."""
    callback_url: str | None = None
    """Where a webhook goes when the job has ended (S1-109)."""
    id: bytes | None = None
    """Set by a wrapper that has to know the id beforehand; refused from a caller."""
    concurrency_key: str | None = None
    """Jobs of its type with this key share the limit ``policy.max_running_per_key``."""
    submitter: str | None = None
    """The id of the token that submitted it over HTTP; None without a token."""


class Lease(msgspec.Struct, gc=False, frozen=True):
    """Temporary, exclusive ownership of one job."""

    token: str
    version: int
    """Rises with every claim of the job, by more than one; see ``next_version`` (C43)."""
    expires_at: datetime


class ClaimedJob(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A claimed job, and the lease that fences every write to it."""

    id: str
    type: str
    queue: str
    priority: Priority
    attempt: int
    max_attempts: int
    lease: Lease
    lease_ttl: float
    payload: Body
    policy: Policy
    key: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    checkpoint: Body | None = None
    flow: str | None = None
    has_dependencies: bool = False
    waited: float = 0.0
    """Seconds from claimable to claimed, by the store's clock."""
    last_version: int = 0
    """The version of the lease before this one; 0 if there is none, or it is not known."""

    @property
    def attempt_id(self) -> str:
        return attempt_id(self.id, self.lease.version)

    @property
    def previous_attempt_id(self) -> str | None:
        return previous_attempt_id(self.id, self.last_version)


class Ownership(msgspec.Struct, frozen=True):
    """The worker that holds a running job; the token itself is never shown."""

    worker: str
    version: int
    expires_at: datetime
    expired: bool
    """True between expiry and recovery: the job still reads RUNNING without an owner (C11)."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the store has it.

    Its payload, result and checkpoint are decoded each time they are asked for, not before.
    """

    id: str
    type: str
    queue: str
    priority: Priority
    state: State
    attempt: int
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime
    expires_at: datetime
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    lease: Ownership | None = None
    lease_version: int = 0
    policy: Policy = DEFAULT_POLICY
    payload_body: Body = EMPTY
    result_body: Body | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    checkpoint_body: Body | None = None
    key: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    replay_of: str | None = None
    """The dead letter that this job replays."""
    callback_url: str | None = None
    waits: Waits | None = None
    flow: str | None = None
    node: str | None = None
    concurrency_key: str | None = None
    submitter: str | None = None

    @property
    def payload(self) -> Any:
        """The payload as plain Python values; an ``UnreadableValue`` if it cannot be read here."""
        return self.payload_body.value

    @property
    def result(self) -> Any:
        """The result in the same way; None without one."""
        return None if self.result_body is None else self.result_body.value

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint in the same way; None without one."""
        return None if self.checkpoint_body is None else self.checkpoint_body.value

    @property
    def raw_payload(self) -> bytes:
        """The payload as it is stored: JSON, or the bytes that were submitted."""
        return self.payload_body.data

    @property
    def raw_result(self) -> bytes | None:
        """The result as it is stored."""
        return None if self.result_body is None else self.result_body.data

    def to_dict(self) -> dict[str, Any]:
        """Return the job in the form of ``GET /v1/jobs/{id}``, ready to be written as JSON.

        Bytes are in base64, as ``payload_base64``; what cannot be decrypted here is only named, as
        ``payload_encrypted``.
        """
        fields: dict[str, Any] = msgspec.to_builtins(job_fields(self), str_keys=True)
        return fields

    def to_json(self) -> str:
        """Return the same as text; JSON in it stays as it is stored, digit by digit."""
        return msgspec.json.encode(job_fields(self, is_raw=True)).decode()

    @property
    def is_held(self) -> bool:
        """True while nothing but its concurrency key keeps the job from being claimable."""
        return (
            self.state is State.PENDING
            and self.concurrency_key is not None
            and (self.waits is None or self.waits.missing == 0)
        )


BODIES = ("payload", "result", "checkpoint")
_APART = frozenset(("policy", "waits", "submitter", *(f"{name}_body" for name in BODIES)))
_PLAIN = tuple(name for name in Job.__struct_fields__ if name not in _APART)


def job_fields(job: Job, *, is_raw: bool = False, is_full: bool = True) -> dict[str, Any]:
    """Return the fields of *job* for JSON, as Python, HTTP and the command line share them.

    Its policy, payload, result and checkpoint only if *is_full*.
    """
    from fencepost.core.encryption import readable
    from fencepost.core.values.payload import body_fields

    seen = readable(job)
    fields = {name: getattr(seen, name) for name in _PLAIN}
    if is_full:
        # The stored form omits defaults; a reader should not have to know them.
        backoff = asdict(job.policy.backoff)
        backoff["delays"] = list(backoff["delays"])
        fields["policy"] = {**asdict(job.policy), "backoff": backoff}
        for name in BODIES:
            fields |= body_fields(name, getattr(job, f"{name}_body"), is_raw=is_raw)
    return fields


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """A job that another waits for, or waited for."""

    job_id: str
    type: str
    state: State
    node: str | None = None
    result: Body | None = None
    """Only on request, and if the job has completed."""


class AttemptOutcome(StrEnum):
    """How an attempt ended, if it did."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    SNOOZED = "snoozed"
    UNREADABLE = "unreadable"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job under one lease."""

    id: str
    job_id: str
    previous_id: str | None
    number: int
    lease_version: int
    worker: str
    outcome: AttemptOutcome
    started_at: datetime
    ended_at: datetime | None = None
    failure: Failure | None = None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that a store keeps of one job, as it travels to another store."""

    job: Job
    attempts: tuple[Attempt, ...] = ()
    """Oldest first, the running or successful one included."""
    key_window: float | None = None
    holds_key: bool = False
    """Whether the job was the last to take its key, even if the key has lapsed."""
    key_ends_at: datetime | None = None
    is_dead_letter: bool = False
    """On the list of dead letters, neither replayed nor discarded."""
    dependencies: tuple[str, ...] = ()
    """The ids of its dependencies that are still kept, in order."""

    @property
    def unsuccessful(self) -> tuple[Attempt, ...]:
        """The attempts that have ended, except the successful one."""
        others = (AttemptOutcome.SUCCEEDED, AttemptOutcome.RUNNING)
        return tuple(each for each in self.attempts if each.outcome not in others)

    @property
    def success(self) -> Attempt | None:
        """The attempt that succeeded."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.outcome is AttemptOutcome.SUCCEEDED else None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended in failure and needs attention."""

    job_id: str
    type: str
    queue: str
    state: State
    attempts: int
    failure: Failure
    completed_at: datetime
