"""The only place where decisions about jobs are made: what becomes of one, and why.

Success, failure, timeout, snooze, release and a payload that is not understood all pass through
``decide``; so does an expired lease, which is a failed attempt like any other (C8, S4-8). What ends
a job from outside has a function each: ``cancelled``, ``expired``, ``failed_with`` a dependency,
and ``CORRUPT``. Stores apply decisions and build none; a test looks for that.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import (
    MESSAGE_LENGTH_MAX,
    UNREADABLE_DELAY_MAX,
    UNREADABLE_DELAY_MIN,
    UNREADABLE_MAX,
)
from fencepost.core.job.job import AttemptOutcome, Body, Category, ClaimedJob, Failure
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.policy import Policy


class Succeeded(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The handler returned."""

    result: Body


class Failed(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The handler raised, ran too long, or was lost with its worker."""

    failure: Failure
    retry_after: float | None = None
    """The next attempt waits at least this long, even if the backoff is shorter (C34)."""


class Snoozed(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The handler asked to be called again later; not a failure, not counted."""

    delay: float


class Released(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The worker released the job unrun or interrupted; not counted (C23)."""


TOO_LATE = Released()
"""The outcome of an attempt whose thread got its turn too late: its handler was not called."""


class Unreadable(msgspec.Struct, gc=False, frozen=True, tag=True):
    """This version of the code cannot read the payload, another may; not counted at first (C47)."""

    failure: Failure
    returns: int = 0
    """How often the job was released for this before, and ..."""
    waited: float = 0.0
    """... how many seconds ago that happened first."""


Outcome = Succeeded | Failed | Snoozed | Released | Unreadable

LEASE_EXPIRED = Failed(Failure(Category.SYSTEM, "lease expired", code="lease_expired"))
CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")
LIFETIME_EXCEEDED = Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded")
UNREADABLE_JOB = Failure(Category.PERMANENT, "the stored job cannot be read", code="corrupt")


class Decision(msgspec.Struct, gc=False, frozen=True):
    """What becomes of a running job. Times are relative: the store's clock makes them absolute."""

    event: Event
    state: State
    outcome: AttemptOutcome
    delay: float = 0.0
    result: Body | None = None
    failure: Failure | None = None
    is_counted: bool = True


def cancelled(state: State) -> Decision:
    """Return the end of a live job that is cancelled (C20)."""
    return _decision(Event.CANCEL, AttemptOutcome.CANCELLED, was=state, failure=CANCELLED)


def expired(state: State) -> Decision:
    """Return the end of a live job past its lifetime (C22)."""
    return _decision(Event.EXPIRE, AttemptOutcome.FAILED, was=state, failure=LIFETIME_EXCEEDED)


_PROPAGATED = {
    State.FAILED: (Event.REJECT, Category.PERMANENT, AttemptOutcome.FAILED),
    State.DEAD_LETTER: (Event.EXHAUST, Category.SYSTEM, AttemptOutcome.FAILED),
    State.CANCELLED: (Event.CANCEL, Category.CANCELLED, AttemptOutcome.CANCELLED),
}


def failed_with(job_id: str, state: State, failure: Failure | None) -> Decision:
    """Return the end of a job that waited for *job_id*, which ended in *state* (S1-71 to S1-73).

    The failure names the job that failed first, however many jobs lie between.
    """
    event, category, outcome = _PROPAGATED[state]
    earlier = None if failure is None else failure.failed_dependency
    first = job_id if earlier is None else earlier
    message = f"it waited for job {first}, which ended as {state}"
    reason = Failure(category, message, code="dependency_failed", failed_dependency=first)
    return _decision(event, outcome, was=State.PENDING, failure=reason)


class Settlement(msgspec.Struct, gc=False, frozen=True):
    """A decision about one job, under the lease that entitles the worker to make it."""

    job_id: str
    token: str
    decision: Decision
    job: ClaimedJob | None = None
    """The job as it was claimed, if known: encryption binds its fields, or else looks them up."""
    correlation_id: str | None = None
    """For the log (S1-108), if it is known."""


def settlement_of(job: ClaimedJob, decision: Decision) -> Settlement:
    """Return *decision* about *job* under its lease."""
    return Settlement(job.id, job.lease.token, decision, job, job.correlation_id)


class Standing(Protocol):
    """What ``decide`` needs to know about a job."""

    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def policy(self) -> Policy: ...


S = TypeVar("S", bound=Standing)


def decide(
    job: S, outcome: Outcome, rng: Random, ask: Callable[[S], float | None] = lambda _: None
) -> Decision:
    """Return what becomes of running *job* after *outcome*.

    *ask* calls the backoff function of its policy, if there is one (S1-55).
    """
    if isinstance(outcome, Succeeded):
        return Decision(Event.SUCCEED, _SUCCEEDED, AttemptOutcome.SUCCEEDED, result=outcome.result)
    match outcome:
        case Failed(failure, retry_after):
            return _decide_failure(job, failure, retry_after, rng, ask)
        case Snoozed(delay):
            return _decision(Event.SNOOZE, AttemptOutcome.SNOOZED, delay=delay, is_counted=False)
        case Released():
            return RELEASED
        case Unreadable():  # pragma: no branch - exhaustive
            return _decide_unreadable(outcome)


_SUCCEEDED = advance(State.RUNNING, Event.SUCCEED)


def _decide_failure(
    job: S,
    failure: Failure,
    retry_after: float | None,
    rng: Random,
    ask: Callable[[S], float | None],
) -> Decision:
    if not _is_retryable(failure.category, job.policy):
        return _decision(Event.REJECT, AttemptOutcome.FAILED, failure=failure)
    if job.attempt >= job.max_attempts:
        return _decision(Event.EXHAUST, AttemptOutcome.FAILED, failure=failure)
    delay = job.policy.backoff.delay(max(job.attempt, 1), rng, ask(job))
    if retry_after is not None:
        delay = max(delay, retry_after)
    return _decision(Event.RETRY, AttemptOutcome.FAILED, failure=failure, delay=delay)


def _decide_unreadable(outcome: Unreadable) -> Decision:
    """Release the job for other workers, for an hour; then no worker will be able to read it."""
    failure = outcome.failure
    if outcome.waited >= UNREADABLE_MAX:
        message = (
            f"{failure.message}; for {UNREADABLE_MAX / 60:.0f} minutes no worker could read it"
        )
        ended = replace(failure, category=Category.PERMANENT, message=message[-MESSAGE_LENGTH_MAX:])
        return _decision(Event.REJECT, AttemptOutcome.FAILED, failure=ended)
    growth = 2.0 ** min(outcome.returns, 100)  # far beyond the cap
    return _decision(
        Event.RETRY,
        AttemptOutcome.UNREADABLE,
        failure=failure,
        delay=min(UNREADABLE_DELAY_MIN * growth, UNREADABLE_DELAY_MAX),
        is_counted=False,
    )


def _is_retryable(category: Category, policy: Policy) -> bool:
    match category:
        case Category.TEMPORARY:
            return True
        case Category.TIMEOUT:
            return policy.on_timeout
        case Category.SYSTEM:
            return policy.on_system
        case Category.PERMANENT | Category.CANCELLED:  # pragma: no branch - exhaustive
            return False


def _decision(
    event: Event,
    outcome: AttemptOutcome,
    *,
    was: State = State.RUNNING,
    delay: float = 0.0,
    failure: Failure | None = None,
    is_counted: bool = True,
) -> Decision:
    return Decision(event, advance(was, event), outcome, delay, None, failure, is_counted)


RELEASED = _decision(Event.RELEASE, AttemptOutcome.RELEASED, is_counted=False)
"""What becomes of a job that is given back."""
CORRUPT = _decision(Event.REJECT, AttemptOutcome.FAILED, failure=UNREADABLE_JOB)
"""The end of a claimed job that cannot be read from its store."""
