"""Every exception that Fencepost raises at a caller, in one tree.

    FencepostError
    ├── InvalidJobError            the submission breaks a rule; nothing was stored
    │   ├── InvalidPayloadError    arguments do not fit the signature, or are not JSON or bytes
    │   ├── PayloadTooLargeError   larger than max_payload
    │   ├── InvalidKeyError        an idempotency key that is empty or too long
    │   ├── InvalidCallbackError   a callback_url to which no webhook may be sent
    │   ├── InvalidEventError      an event's name or pattern that is none, or a pattern to send
    │   ├── TooManyLanesError      more pairs of queue and type than an app may have
    │   └── DependencyError        what a job is to wait for cannot be waited for
    │       ├── UnknownDependencyError   no job has that id
    │       ├── DependencyCycleError     jobs that wait for each other, or one for itself
    │       ├── DependencyDepthError     a way of more than 100 jobs
    │       ├── DependencyBreadthError   a job that waits for more than 1,000
    │       ├── NoDependencyError        AFTER_ANY of nothing would wait for ever
    │       ├── DuplicateNodeError       two nodes of a flow have one name
    │       └── EmptyFlowError           a flow, a chain or a fan of no jobs at all
    ├── ConfigurationError         a setting, a URL or a decorator that makes no sense
    │   ├── InvalidDurationError   (also an InvalidJobError) negative, absurd or unreadable
    │   ├── UnknownTypeError       no task of that name is registered in this app
    │   ├── InvalidCronError       a cron expression or a time zone that cannot be read
    │   └── InvalidRateError       a rate that cannot be read, or lets nothing start
    ├── DuplicateJobError          the idempotency key is taken (carries the existing job)
    ├── JobNotFoundError
    │   └── FlowNotFoundError      no job belongs to that flow
    ├── CronNotFoundError
    ├── TokenNotFoundError         no token has that id or name, or several have that name
    ├── UnauthenticatedError       no token, or none that is good
    ├── ForbiddenError             the token is good, and not for this
    ├── TooManyRequestsError       more requests than the token may make; says when to come back
    ├── StateConflictError         the job's state forbids it; nothing changed
    │   └── IllegalTransition      a pair that the transition table does not hold
    ├── StaleLeaseError            the lease expired, was taken over, or never was
    ├── JobFailedError             waiting for a result: the job ended in failure
    ├── JobCancelledError          waiting for a result: the job was cancelled
    ├── WaitTimeoutError           waiting for a result: it did not come in time
    ├── WebhookVerificationError   a webhook that was not signed with your secrets, or not lately
    ├── EncryptionError            what is stored encrypted cannot be read here
    │   ├── MissingKeyError        the key that it was encrypted with is not here
    │   ├── TamperedError          it was altered since, or moved from another job
    │   └── PlainContentError      it is not encrypted, where only encrypted content is read
    └── StoreError
        ├── StoreUnavailableError  surely not done: unreachable, locked, full, read-only
        │   ├── ForkedStoreError   a store object was carried across fork()
        │   ├── ForeignFileError   the file is not a store of Fencepost's; it was not touched
        │   └── SchemaError        the schema is older or newer than this code
        ├── UnknownOutcomeError    may have been done: repeat with the same key or token
        │   └── SubmissionTimeoutError
        └── ServerError            what answers is no Fencepost, or speaks of what we do not know

And three that a handler raises to say how it wants its failure treated; anything else that it
raises counts as temporary:

    HandlerSignal
    ├── TemporaryError             try again, not before retry_after if that is given
    ├── PermanentError             trying again would fail in the same way
    └── Snooze                     not a failure: call me again later

And one that is raised in a handler, not by it, and is no ``Exception``:

    HandlerStopped                 the worker stops this ``def`` handler

Each class has a stable ``code``, which is what HTTP and the command line show. A caller that has
to choose what to do next needs only the three kinds of store error: *rejected* (everything
outside ``StoreError``), *unavailable* (surely not done) and *unknown* (may have been done).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

Duration = float | int | str | timedelta
"""Seconds, a timedelta, or text such as "90s"; read by ``core.duration``."""


ID_SHOWN_MAX = 200


class FencepostError(Exception):
    """The root of the tree."""

    code: ClassVar[str] = "error"


class InvalidJobError(FencepostError):
    """A submission breaks a rule; nothing was stored."""

    code = "invalid_job"


class InvalidPayloadError(InvalidJobError):
    """The arguments do not fit the task's signature, or cannot be encoded."""

    code = "invalid_payload"


class PayloadTooLargeError(InvalidJobError):
    """The encoded payload is larger than the app allows."""

    code = "payload_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"payload of {size:,} bytes is over the limit of {limit:,}; store the data elsewhere "
            f"and submit a reference, or raise App(max_payload=…) (16 MB at most)"
        )
        self.size = size
        self.limit = limit


class InvalidKeyError(InvalidJobError):
    """An idempotency key that is empty, too long or not text."""

    code = "invalid_key"


class DependencyError(InvalidJobError):
    """What a job is to wait for cannot be waited for; nothing was stored, of a flow none of it."""

    code = "dependency"


class UnknownDependencyError(DependencyError):
    """A job is to wait for one that does not exist."""

    code = "dependency_unknown"

    def __init__(self, job_id: str, message: str | None = None) -> None:
        shown = job_id if len(job_id) <= ID_SHOWN_MAX else f"{job_id[:ID_SHOWN_MAX]}…"
        super().__init__(
            message
            or f"no job has the id {shown!r}, so none can wait for it; it never existed or has "
            f"been pruned"
        )
        self.job_id = job_id


class DependencyCycleError(DependencyError):
    """Jobs are to wait for each other, or one for itself."""

    code = "dependency_cycle"


class DependencyDepthError(DependencyError):
    """Too many jobs are to run one after the other."""

    code = "dependency_depth"

    def __init__(self, depth: int) -> None:
        super().__init__(f"a way of {depth} jobs, one after the other, is too long; 100 may be")


class DependencyBreadthError(DependencyError):
    """One job is to wait for too many."""

    code = "dependency_breadth"

    def __init__(self, count: int) -> None:
        super().__init__(f"a job may wait for 1,000 others, got {count:,}; gather them in stages")


class NoDependencyError(DependencyError):
    """A job is to run after any of no jobs at all."""

    code = "dependency_none"

    def __init__(self) -> None:
        super().__init__("after_any of no jobs would wait for ever; name one")


class DuplicateNodeError(DependencyError):
    """Two nodes of a flow have the same name."""

    code = "dependency_node"


class InvalidCallbackError(InvalidJobError):
    """A callback_url to which no webhook may be sent."""

    code = "invalid_callback"


class InvalidEventError(InvalidJobError):
    """A name or pattern of events that breaks the rules, or a pattern where one event is meant."""

    code = "invalid_event"


class TooManyLanesError(InvalidJobError):
    """A job of a queue and a type that are new together, and one pair more than an app may have."""

    code = "too_many_lanes"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"this app has jobs of {limit:,} pairs of queue and type, which is the limit, and this "
            f"would be one more; put what differs into payload, tags or a concurrency key (a pair "
            f"is removed some time after its last job was pruned)"
        )
        self.limit = limit


class EmptyFlowError(DependencyError):
    """A flow, a chain or a fan has no jobs."""

    code = "dependency_empty"


class ConfigurationError(FencepostError):
    """A setting, a URL or a decorator that makes no sense."""

    code = "configuration"


class InvalidDurationError(ConfigurationError, InvalidJobError):
    """A duration that is negative, absurdly long, or that cannot be read."""

    code = "invalid_duration"


class UnknownTypeError(ConfigurationError):
    """No task of this name is registered in this app."""

    code = "unknown_type"


class InvalidCronError(ConfigurationError):
    """A cron expression or a time zone that cannot be read."""

    code = "invalid_cron"


class InvalidRateError(ConfigurationError):
    """How often jobs of a type may start cannot be read, or makes no sense."""

    code = "invalid_rate"


class DuplicateJobError(FencepostError):
    """The idempotency key belongs to a job that still holds it.

    ``existing`` is the handle of that job when raised by an app, its id when raised by a store.
    It and ``existing_id`` are None where a token may not know which job that is.
    """

    code = "duplicate_key"

    def __init__(
        self, *, type: str, key: str, existing_id: str | None = None, existing: Any = None
    ) -> None:
        holder = "" if existing_id is None else f" by job {existing_id}"
        super().__init__(f"key {key!r} of type {type!r} is held{holder}")
        self.type = type
        self.key = key
        self.existing_id = existing_id
        self.existing = existing if existing is not None else existing_id


class JobNotFoundError(FencepostError):
    """No job has this id: it never existed, or retention has removed it."""

    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        # What is no id at all may be of any length.
        shown = job_id if len(job_id) <= ID_SHOWN_MAX else f"{job_id[:ID_SHOWN_MAX]}…"
        super().__init__(f"no job has the id {shown}; it never existed or has been pruned")
        self.job_id = job_id


class CronNotFoundError(FencepostError):
    """No cron has this name: none was declared yet by a worker, or it was forgotten."""

    code = "cron_not_found"

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= ID_SHOWN_MAX else f"{name[:ID_SHOWN_MAX]}…"
        super().__init__(f"no cron is called {shown!r}; a worker declares those of its app")
        self.name = name


class TokenNotFoundError(FencepostError):
    """No token has this id or name, or the name means several."""

    code = "token_not_found"

    def __init__(self, name: str, ids: Sequence[str] = ()) -> None:
        shown = name if len(name) <= ID_SHOWN_MAX else f"{name[:ID_SHOWN_MAX]}…"
        several = f"{len(ids)} tokens are called {shown!r}; name one by its id: {', '.join(ids)}"
        super().__init__(several if ids else f"no token has the id or the name {shown!r}")
        self.name = name


class UnauthenticatedError(FencepostError):
    """Nobody is known who asks: there is no token, or it is unknown, expired or revoked."""

    code = "unauthenticated"
    challenge: ClassVar[str] = "Bearer"
    """What the answer says in ``WWW-Authenticate``."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "the bearer token is unknown, expired or revoked; `fencepost tokens create` makes "
            "another"
        )


class ForbiddenError(FencepostError):
    """Whoever asks is known, and may not do this."""

    code = "forbidden"


class TooManyRequestsError(FencepostError):
    """The token makes more requests than it may; nothing was done."""

    code = "rate_limited"

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"more requests than this token may make; wait {retry_after:.3g} s")
        self.retry_after = retry_after


class FlowNotFoundError(JobNotFoundError):
    """No job belongs to this flow: it never existed, or retention has removed all of it."""

    code = "flow_not_found"

    def __init__(self, flow_id: str) -> None:
        super().__init__(flow_id)
        shown = flow_id if len(flow_id) <= ID_SHOWN_MAX else f"{flow_id[:ID_SHOWN_MAX]}…"
        self.args = (f"no job belongs to a flow {shown}; it never existed or has been pruned",)


class StateConflictError(FencepostError):
    """The job's present state forbids the request; nothing changed."""

    code = "state_conflict"

    def __init__(
        self,
        message: str,
        *,
        job_id: str | None = None,
        state: str | None = None,
        culprit: str | None = None,
    ) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.state = state
        self.culprit = culprit
        """The other job whose state it is, where it is another's."""


class IllegalTransition(StateConflictError):
    """A job cannot take this event in its present state."""

    code = "illegal_transition"

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"a {state} job cannot {event}", state=state)
        self.event = event


class StaleLeaseError(FencepostError):
    """This worker no longer owns the job: its lease expired, was taken over or was revoked."""

    code = "stale_lease"

    def __init__(self, job_id: str, state: str | None = None) -> None:
        super().__init__(f"the lease on job {job_id} is no longer valid; stop working on it")
        self.job_id = job_id
        self.state = state
        """The job's present state, where it is known."""


class JobFailedError(FencepostError):
    """The awaited job ended as failed or dead_letter."""

    code = "job_failed"

    def __init__(
        self, job_id: str, *, category: str, message: str, failure_code: str | None
    ) -> None:
        super().__init__(f"job {job_id} failed ({category}): {message}")
        self.job_id = job_id
        self.category = category
        self.failure_code = failure_code


class JobCancelledError(FencepostError):
    """The awaited job was cancelled."""

    code = "job_cancelled"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} was cancelled")
        self.job_id = job_id


class WaitTimeoutError(FencepostError):
    """The awaited job did not end in time; it is still on its way."""

    code = "wait_timeout"

    def __init__(self, job_id: str, timeout: float, state: str) -> None:
        super().__init__(f"job {job_id} is still {state} after {timeout:g} s; ask job.why()")
        self.job_id = job_id
        self.state = state


class WebhookVerificationError(FencepostError):
    """What was received is no webhook signed with one of these secrets, or is too old."""

    code = "webhook_verification"


class EncryptionError(FencepostError):
    """Something that is stored encrypted cannot be read here."""

    code = "encryption"


class MissingKeyError(EncryptionError):
    """The key that it was encrypted with is not among those of this process."""

    code = "key_missing"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"encrypted with key {key_id!r}, which is not here; add it to App(keys=…) or to "
            f"FENCEPOST_KEYS"
        )
        self.key_id = key_id


class TamperedError(EncryptionError):
    """It does not authenticate: altered since it was encrypted, or put where it does not belong."""

    code = "corrupt"

    def __init__(self) -> None:
        super().__init__(
            "does not authenticate: altered since it was encrypted, or moved here from another "
            "job, type, queue, key, attempt or field; restore the store's data"
        )


class PlainContentError(EncryptionError):
    """It is stored unencrypted, and there are keys: only what is encrypted is read."""

    code = "not_encrypted"

    def __init__(self, what: str | None = None) -> None:
        start = "" if what is None else f"{what} is "
        super().__init__(
            f"{start}stored unencrypted, and therefore refused: written before there were keys, "
            "or by somebody without them. If that is intended, accept it for a while with "
            "App(plain='accept until YYYY-MM-DD') or FENCEPOST_PLAIN"
        )


class StoreError(FencepostError):
    """Something between here and the store went wrong."""

    code = "store_error"


class StoreUnavailableError(StoreError):
    """The store cannot be used now, and the operation was surely not done."""

    code = "store_unavailable"


class ForkedStoreError(StoreUnavailableError):
    """A store object was carried across fork(), which would share its locks and descriptors."""

    code = "forked_store"


class ForeignFileError(StoreUnavailableError):
    """The file is not a Fencepost store; nothing in it or beside it was changed."""

    code = "foreign_file"


class SchemaError(StoreUnavailableError):
    """The store's schema is older or newer than this version of Fencepost."""

    code = "schema"


class UnknownOutcomeError(StoreError):
    """The operation may or may not have been done; repeat it with the same key or token."""

    code = "unknown_outcome"


class SubmissionTimeoutError(UnknownOutcomeError):
    """The store did not acknowledge a submission in time; it may still have stored it."""

    code = "submission_timeout"


class ServerError(StoreError):
    """A server has answered with what this client cannot read; refused, as far as can be told."""

    code = "server_error"

    def __init__(self, message: str, *, status: int, server_code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.server_code = server_code
        """The code of the problem that it told of, if it did."""


class HandlerSignal(Exception):
    """What a handler raises to speak to its worker."""


class TemporaryError(HandlerSignal):
    """This attempt failed, the next may succeed: a timeout, a 503, a rate limit, a deadlock."""

    def __init__(
        self,
        message: str = "temporary failure",
        cause: BaseException | None = None,
        retry_after: Duration | None = None,
    ) -> None:
        super().__init__(message)
        self.__cause__ = cause
        self.retry_after = retry_after


class PermanentError(HandlerSignal):
    """Every attempt would fail like this one: invalid input, a missing entity, a broken rule."""

    def __init__(
        self,
        message: str = "permanent failure",
        cause: BaseException | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.__cause__ = cause
        self.code = code


class Snooze(HandlerSignal):
    """Call the handler again after *delay*; the attempt is not counted."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snooze for {delay}")
        self.delay = delay


class HandlerStopped(BaseException):
    """Raised in a ``def`` handler that its worker stops, at whatever it does just then.

    ``ctx.cancel_reason`` says why. It is no Exception, so that ``except Exception`` lets it pass;
    ``finally`` and ``with`` tidy up as ever. Whoever catches it has a few seconds until the thread
    is given up.
    """

    def __init__(self, message: str = "stopped by the worker; ctx.cancel_reason says why") -> None:
        super().__init__(message)
