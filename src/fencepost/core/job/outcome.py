"""The only place where the end of an attempt becomes the job's next state.

Success, failure, timeout, lost lease, snooze, release and a payload that is not understood all pass
through ``decide``; so does a lease that ran out, which is a failed attempt like any other (C8,
S4-8).
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
    """The least that the next attempt should wait, whatever the backoff says (C34)."""


class Snoozed(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The handler asked to be called again later; not a failure, not counted."""

    delay: float


class Released(msgspec.Struct, gc=False, frozen=True, tag=True):
    """The worker gave the job back unrun or interrupted; not counted (C23)."""


class Unreadable(msgspec.Struct, gc=False, frozen=True, tag=True):
    """This version of the code cannot read the payload, another may; not counted at first (C47)."""

    failure: Failure
    returns: int = 0
    """How often the job has been given back for this before, and ..."""
    waited: float = 0.0
    """... how long ago that was the first time, in seconds."""


Outcome = Succeeded | Failed | Snoozed | Released | Unreadable

LEASE_EXPIRED = Failed(Failure(Category.SYSTEM, "lease expired", code="lease_expired"))


class Decision(msgspec.Struct, gc=False, frozen=True):
    """What becomes of a running job. Times are relative: the store's clock makes them absolute."""

    event: Event
    state: State
    outcome: AttemptOutcome
    delay: float = 0.0
    result: Body | None = None
    failure: Failure | None = None
    is_counted: bool = True


class Settlement(msgspec.Struct, gc=False, frozen=True):
    """A decision about one job, under the lease that entitles the worker to make it."""

    job_id: str
    token: str
    decision: Decision
    job: ClaimedJob | None = None
    """The job as it was claimed, if it is at hand: encryption binds what it says, and looks it up
    otherwise."""
    correlation_id: str | None = None
    """The job's own, if it is at hand: the log tells of it (S1-108), the store does not look."""


def settlement_of(job: ClaimedJob, decision: Decision) -> Settlement:
    """Return *decision* about *job* under its lease."""
    return Settlement(job.id, job.lease.token, decision, job, job.correlation_id)


class Standing(Protocol):
    """What ``decide`` needs to know of a job."""

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

    *ask* knows what the backoff function of its policy says now, if that is to be asked (S1-55).
    """
    if isinstance(outcome, Succeeded):
        return Decision(Event.SUCCEED, _SUCCEEDED, AttemptOutcome.SUCCEEDED, result=outcome.result)
    match outcome:
        case Failed(failure, retry_after):
            return _decide_failure(job, failure, retry_after, rng, ask)
        case Snoozed(delay):
            return _decision(Event.SNOOZE, AttemptOutcome.SNOOZED, delay=delay, is_counted=False)
        case Released():
            return _decision(Event.RELEASE, AttemptOutcome.RELEASED, is_counted=False)
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
    """Give the job back for others, for an hour; then nobody will read it."""
    failure = outcome.failure
    if outcome.waited >= UNREADABLE_MAX:
        message = (
            f"{failure.message}; for {UNREADABLE_MAX / 60:.0f} minutes no worker could read it"
        )
        ended = replace(failure, category=Category.PERMANENT, message=message[-MESSAGE_LENGTH_MAX:])
        return _decision(Event.REJECT, AttemptOutcome.FAILED, failure=ended)
    growth = 2.0 ** min(outcome.returns, 100)  # which has long passed the cap
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
    delay: float = 0.0,
    result: Body | None = None,
    failure: Failure | None = None,
    is_counted: bool = True,
) -> Decision:
    state = advance(State.RUNNING, event)
    return Decision(event, state, outcome, delay, result, failure, is_counted)
