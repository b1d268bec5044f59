"""The values that travel: a job as submitted, as claimed, as seen; leases and attempts.

All are frozen and trusted: whatever made them has checked them. Those that come by the thousand a
second are kept from the garbage collector (``gc=False``): they hold plain values and no cycles, and
looking through them took a sixth of a worker's time.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencepost.core.flows.dependencies import Dependencies, Waits
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import attempt_id, previous_attempt_id
from fencepost.core.values.names import DEFAULT_QUEUE


class Encoding(StrEnum):
    """How the bytes of a payload or result are to be read."""

    JSON = "json"
    BINARY = "binary"
    ENCRYPTED = "encrypted"
    """An envelope (``core.envelope``): what is in it, only a holder of its key can read."""


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


EMPTY = Body(b"{}")


class Failure(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Why an attempt did not succeed."""

    category: Category
    message: str
    code: str | None = None
    exception: str | None = None
    """The qualified name of the exception's class."""
    traceback: str | None = None
    culprit: str | None = None
    """The job that failed, when this one only waited for it."""


class Progress(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """How far a handler says it has come."""

    fraction: float
    message: str = ""


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
    """Set by a store around a store that has to know it beforehand; refused when a caller does."""
    concurrency_key: str | None = None
    """Of the jobs of its type and this key, few run at once: ``policy.max_running_per_key``."""
    submitter: str | None = None
    """The id of the token that submitted it over HTTP; None for one submitted without a token."""


class Lease(msgspec.Struct, gc=False, frozen=True):
    """Temporary, exclusive ownership of one job."""

    token: str
    version: int
    """Rises with every claim of the job, not by one, see ``core.lease`` (C43)."""
    expires_at: datetime


class ClaimedJob(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A job in a worker's hands, and the lease that fences every write to it."""

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
    """Seconds for which it had been claimable when it was claimed, by the store's clock."""
    last_version: int = 0
    """Of the lease before this one, as far as the store knows; 0 if it knows of none."""

    @property
    def attempt_id(self) -> str:
        return attempt_id(self.id, self.lease.version)

    @property
    def previous_attempt_id(self) -> str | None:
        return previous_attempt_id(self.id, self.last_version)


class Ownership(msgspec.Struct, frozen=True):
    """Who holds a running job; the token itself is shown to nobody."""

    worker: str
    version: int
    expires_at: datetime
    expired: bool
    """True between expiry and recovery: the job still reads RUNNING, but nobody owns it (C11)."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands in the store."""

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
    payload: Body = EMPTY
    result: Body | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    checkpoint: Body | None = None
    key: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    replay_of: str | None = None
    """The dead letter of which this job is a fresh copy."""
    callback_url: str | None = None
    waits: Waits | None = None
    flow: str | None = None
    node: str | None = None
    concurrency_key: str | None = None
    submitter: str | None = None

    @property
    def is_held(self) -> bool:
        """True while nothing but its concurrency key keeps the job from being claimable."""
        return (
            self.state is State.PENDING
            and self.concurrency_key is not None
            and (self.waits is None or self.waits.missing == 0)
        )


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """A job that another waits for, or waited for."""

    job_id: str
    type: str
    state: State
    node: str | None = None
    result: Body | None = None
    """Only when it was asked for, and the job has completed."""


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
    """Whether the job was the last to take its key; a key that has lapsed counts too."""
    key_ends_at: datetime | None = None
    is_dead_letter: bool = False
    """On the list of dead letters, neither replayed nor discarded."""
    dependencies: tuple[str, ...] = ()
    """The ids of the jobs that it waits for or waited for, in order, as far as they are kept."""

    @property
    def unsuccessful(self) -> tuple[Attempt, ...]:
        """The attempts that have ended, but for the successful one."""
        others = (AttemptOutcome.SUCCEEDED, AttemptOutcome.RUNNING)
        return tuple(each for each in self.attempts if each.outcome not in others)

    @property
    def success(self) -> Attempt | None:
        """The attempt that succeeded."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.outcome is AttemptOutcome.SUCCEEDED else None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended in failure and that somebody should look at."""

    job_id: str
    type: str
    queue: str
    state: State
    attempts: int
    failure: Failure
    dead_at: datetime
