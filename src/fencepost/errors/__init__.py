"""Every exception that Fencepost raises, in one tree; each class has a stable ``code``.

    FencepostError
    ├── InvalidJobError
    │   ├── InvalidPayloadError, PayloadTooLargeError, InvalidKeyError, InvalidCallbackError
    │   ├── InvalidEventError, TooManyLanesError, InvalidDurationError
    │   └── DependencyError
    │       ├── UnknownDependencyError, DependencyCycleError, DependencyDepthError
    │       └── DependencyBreadthError, NoDependencyError, DuplicateNodeError, EmptyFlowError
    ├── ConfigurationError
    │   └── InvalidDurationError, UnknownTypeError, InvalidCronError, InvalidRateError
    ├── DuplicateJobError, CronNotFoundError, TokenNotFoundError, StaleLeaseError
    ├── UnauthenticatedError, ForbiddenError, TooManyRequestsError, WebhookVerificationError
    ├── JobFailedError, JobCancelledError, WaitTimeoutError
    ├── JobNotFoundError
    │   └── FlowNotFoundError, ReplayNotFoundError
    ├── StateConflictError
    │   └── IllegalTransition
    ├── EncryptionError
    │   └── MissingKeyError, TamperedError, PlainContentError
    └── StoreError
        ├── ServerError
        ├── StoreUnavailableError
        │   └── ForkedStoreError, ForeignFileError, SchemaError
        └── UnknownOutcomeError
            └── SubmissionTimeoutError
    HandlerSignal
    └── TemporaryError, PermanentError, Snooze
    HandlerStopped

To choose what to do next, a caller needs three kinds: *rejected* (all outside ``StoreError``),
*unavailable* (surely not done) and *unknown* (may have been done; repeat with the same key or
token). The last five are between a handler and its worker (``signals.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fencepost.errors.signals import HandlerSignal as HandlerSignal
from fencepost.errors.signals import HandlerStopped as HandlerStopped
from fencepost.errors.signals import PermanentError as PermanentError
from fencepost.errors.signals import Snooze as Snooze
from fencepost.errors.signals import TemporaryError as TemporaryError

# The name under which handlers import them is the one that failures record and tracebacks show.
for _signal in (HandlerSignal, HandlerStopped, PermanentError, Snooze, TemporaryError):
    _signal.__module__ = __name__


def _cut(name: str, limit: int = 200) -> str:
    """Return a name that a caller gave, which may be of any length."""
    return name if len(name) <= limit else f"{name[:limit]}…"


class FencepostError(Exception):
    """The root of the tree."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls, *, code: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if code is not None:
            cls.code = code


class InvalidJobError(FencepostError, code="invalid_job"):
    """A submission breaks a rule; nothing was stored."""


class InvalidPayloadError(InvalidJobError, code="invalid_payload"):
    """The arguments do not fit the task's signature, or cannot be encoded."""


class PayloadTooLargeError(InvalidJobError, code="payload_too_large"):
    """The encoded payload is larger than the app allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"payload of {size:,} bytes is over the limit of {limit:,}; store the data elsewhere "
            f"and submit a reference, or raise App(max_payload=…) (16 MB at most)"
        )
        self.size = size
        self.limit = limit


class InvalidKeyError(InvalidJobError, code="invalid_key"):
    """An idempotency key that is empty, too long or not text."""


class DependencyError(InvalidJobError, code="dependency"):
    """A job cannot wait for what it names; nothing was stored, of a flow not even a part."""


class UnknownDependencyError(DependencyError, code="dependency_unknown"):
    """A job names a dependency that does not exist."""

    def __init__(self, job_id: str, message: str | None = None) -> None:
        text = f"no job has the id {_cut(job_id)!r}; it never existed or has been pruned"
        super().__init__(message or text)
        self.job_id = job_id


class DependencyCycleError(DependencyError, code="dependency_cycle"):
    """Jobs would wait for each other, or one for itself."""


class DependencyDepthError(DependencyError, code="dependency_depth"):
    """The chain of dependencies is too long."""


class DependencyBreadthError(DependencyError, code="dependency_breadth"):
    """One job waits for too many."""


class NoDependencyError(DependencyError, code="dependency_none"):
    """A job would run after any of no jobs."""


class EmptyFlowError(DependencyError, code="dependency_empty"):
    """A flow, a chain or a fan has no jobs."""


class DuplicateNodeError(DependencyError, code="dependency_node"):
    """Two nodes of a flow have the same name."""


class InvalidCallbackError(InvalidJobError, code="invalid_callback"):
    """No webhook may be sent to this callback_url."""


class InvalidEventError(InvalidJobError, code="invalid_event"):
    """The name or pattern of events is invalid, or a pattern was given to send."""


class TooManyLanesError(InvalidJobError, code="too_many_lanes"):
    """The job would need one more pair of queue and type than an app may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"limit of {limit:,} pairs of queue and type reached; put what differs into payload, "
            f"tags or a concurrency key (a pair is removed some time after its last job was pruned)"
        )
        self.limit = limit


class ConfigurationError(FencepostError, code="configuration"):
    """A setting, a URL or a decorator that makes no sense."""


class InvalidDurationError(ConfigurationError, InvalidJobError, code="invalid_duration"):
    """A duration is negative, absurdly long or not readable."""


class UnknownTypeError(ConfigurationError, code="unknown_type"):
    """No task of this name is registered in this app."""


class InvalidCronError(ConfigurationError, code="invalid_cron"):
    """A cron expression or a time zone cannot be read."""


class InvalidRateError(ConfigurationError, code="invalid_rate"):
    """A rate cannot be read, or makes no sense."""


class DuplicateJobError(FencepostError, code="duplicate_key"):
    """Another job holds the idempotency key."""

    def __init__(
        self,
        *,
        type: str,
        key: str,
        existing_id: str | None = None,
        existing: Any = None,
        differs: tuple[str, ...] | None = (),
    ) -> None:
        holder = "" if existing_id is None else f" by job {existing_id}"
        if differs:
            where = ", ".join(differs)
            holder += f", whose payload differs at {where}; give other content another key"
        super().__init__(f"key {key!r} of type {type!r} is held{holder}")
        self.type = type
        self.key = key
        self.differs = differs
        """The fields in which the payload of that job differs from the one submitted; None if they
        cannot be compared here."""
        self.existing_id = existing_id
        self.existing = existing if existing is not None else existing_id
        """Its handle from an app, its id from a store, None if the token may not see it."""


class JobNotFoundError(FencepostError, code="job_not_found"):
    """No job has this id: it never existed, or retention has removed it."""

    what: ClassVar[str] = "no job has the id"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{self.what} {_cut(job_id)}; it never existed or has been pruned")
        self.job_id = job_id


class CronNotFoundError(FencepostError, code="cron_not_found"):
    """No cron has this name: no worker has declared it yet, or it was forgotten."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no cron is called {_cut(name)!r}; a worker declares those of its app")
        self.name = name


class TokenNotFoundError(FencepostError, code="token_not_found"):
    """No token has this id or name, or the name means several."""

    def __init__(self, name: str, ids: Sequence[str] = ()) -> None:
        several = f"{len(ids)} tokens are called {name!r}; name one by its id: {', '.join(ids)}"
        super().__init__(several if ids else f"no token has the id or the name {_cut(name)!r}")
        self.name = name


class UnauthenticatedError(FencepostError, code="unauthenticated"):
    """There is no token, or it is unknown, expired or revoked."""

    challenge: ClassVar[str] = "Bearer"  # for the header WWW-Authenticate

    def __init__(self, message: str | None = None) -> None:
        text = "the token is unknown, expired or revoked; `fencepost tokens create` makes another"
        super().__init__(message or text)


class ForbiddenError(FencepostError, code="forbidden"):
    """The token is valid, but does not allow this."""


class TooManyRequestsError(FencepostError, code="rate_limited"):
    """The token made too many requests; nothing was done."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"too many requests with this token; wait {retry_after:.3g} s")
        self.retry_after = retry_after


class FlowNotFoundError(JobNotFoundError, code="flow_not_found"):
    """No job belongs to this flow: it never existed, or retention has removed all of it."""

    what = "no job belongs to the flow"


class ReplayNotFoundError(JobNotFoundError, code="replay_not_found"):
    """No replay of dead letters has this id: it never existed, or newer ones took its place."""

    what: ClassVar[str] = "no replay has the id"


class StateConflictError(FencepostError, code="state_conflict"):
    """The job's present state forbids the request; nothing changed."""

    def __init__(
        self,
        message: str,
        *,
        job_id: str | None = None,
        state: str | None = None,
        failed_dependency: str | None = None,
    ) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.state = state
        self.failed_dependency = failed_dependency
        """The job that is in this state, if it is another one."""


class IllegalTransition(StateConflictError, code="illegal_transition"):
    """A job cannot take this event in its present state."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"a {state} job cannot {event}", state=state)
        self.event = event


class StaleLeaseError(FencepostError, code="stale_lease"):
    """This worker no longer owns the job: its lease expired, was taken over or was revoked."""

    def __init__(self, job_id: str, state: str | None = None) -> None:
        super().__init__(f"the lease on job {job_id} is no longer valid; stop working on it")
        self.job_id = job_id
        self.state = state


class JobFailedError(FencepostError, code="job_failed"):
    """The awaited job ended as failed or dead_letter."""

    def __init__(
        self, job_id: str, *, category: str, message: str, failure_code: str | None
    ) -> None:
        super().__init__(f"job {job_id} failed ({category}): {message}")
        self.job_id = job_id
        self.category = category
        self.failure_code = failure_code


class JobCancelledError(FencepostError, code="job_cancelled"):
    """The awaited job was cancelled."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} was cancelled")
        self.job_id = job_id


class WaitTimeoutError(FencepostError, code="wait_timeout"):
    """The awaited job did not end in time; it is still on its way."""

    def __init__(self, job_id: str, timeout: float, state: str) -> None:
        super().__init__(f"job {job_id} is still {state} after {timeout:g} s; ask job.why()")
        self.job_id = job_id
        self.state = state


class WebhookVerificationError(FencepostError, code="webhook_verification"):
    """The request is no webhook signed with one of these secrets, or it is too old."""


class EncryptionError(FencepostError, code="encryption"):
    """Encrypted content cannot be read here."""


class MissingKeyError(EncryptionError, code="key_missing"):
    """This process does not have the key that the content was encrypted with."""

    def __init__(self, key_id: str) -> None:
        text = f"encrypted with key {key_id!r}, which is not here"
        super().__init__(f"{text}; add it to App(keys=…) or to FENCEPOST_KEYS")
        self.key_id = key_id


class TamperedError(EncryptionError, code="corrupt"):
    """The content does not authenticate: it was altered, or moved from another place."""

    def __init__(self) -> None:
        super().__init__(
            "does not authenticate: altered since it was encrypted, or moved here from another "
            "job, type, queue, key, attempt or field; restore the store's data"
        )


class PlainContentError(EncryptionError, code="not_encrypted"):
    """The content is stored unencrypted, and this process has keys: it is refused."""

    def __init__(self, what: str | None = None) -> None:
        start = "" if what is None else f"{what} is "
        super().__init__(
            f"{start}stored unencrypted and refused: written before there were keys, or without "
            "them. If that is intended, accept it for a while with "
            "App(plain='accept until YYYY-MM-DD') or FENCEPOST_PLAIN"
        )


class StoreError(FencepostError, code="store_error"):
    """The store, or the way to it, failed."""


class StoreUnavailableError(StoreError, code="store_unavailable"):
    """The store cannot be used now, and the operation was surely not done."""


class ForkedStoreError(StoreUnavailableError, code="forked_store"):
    """A store object was carried across fork(), which would share its locks and descriptors."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this store was opened before fork(); open one in the child (an App made in "
            "the child does), or start workers with `fencepost worker --processes`"
        )


class ForeignFileError(StoreUnavailableError, code="foreign_file"):
    """The file is not a Fencepost store, or another user made it; nothing in it was changed."""


class SchemaError(StoreUnavailableError, code="schema"):
    """The store's schema is older or newer than this version of Fencepost."""


class UnknownOutcomeError(StoreError, code="unknown_outcome"):
    """The operation may or may not have been done; repeat it with the same key or token."""


class SubmissionTimeoutError(UnknownOutcomeError, code="submission_timeout"):
    """The store did not acknowledge a submission in time; it may still have stored it."""


class ServerError(StoreError, code="server_error"):
    """The client cannot read the answer of a server; the request probably was refused."""

    def __init__(self, message: str, *, status: int, server_code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.server_code = server_code
