"""The rules that a job lives by, stated again without a look at how any store follows them.

A bug in ``core`` would be shared by every store; here it meets another opinion. So nothing in this
file calls ``core``: it only takes its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import AttemptOutcome, Body, Category, Failure
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import (
    Decision,
    Failed,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
    Unreadable,
)
from fencepost.core.job.policy import Policy

ENDED = frozenset({State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED})
"""Only an operator moves a job that is in one of these."""
DEAD = frozenset({State.FAILED, State.DEAD_LETTER})
"""The ends that somebody should look at."""
WAITING_FOR_TIME = frozenset({State.DELAYED, State.RETRYING})

AGAIN = frozenset({State.SCHEDULED, State.DELAYED, State.PENDING})
"""Where an operator can have a job begin that has not succeeded."""

IN_TIME = frozenset({State.SCHEDULED, State.PENDING, State.CANCELLED, State.DEAD_LETTER})
"""Where a job can go that waits for its time; its concurrency key may hold it up then."""

NEXT: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset({State.SCHEDULED, State.DELAYED}) | (ENDED - {State.COMPLETED}),
    State.SCHEDULED: frozenset({State.RUNNING, State.DELAYED, State.CANCELLED, State.DEAD_LETTER}),
    State.DELAYED: IN_TIME,
    State.RETRYING: IN_TIME,
    State.RUNNING: ENDED | {State.SCHEDULED, State.DELAYED, State.RETRYING},
    State.COMPLETED: frozenset(),
    State.FAILED: AGAIN,
    State.DEAD_LETTER: AGAIN,
    State.CANCELLED: AGAIN,
}
"""Where a job can go from where it is."""

AFTER: Mapping[Event, State] = {
    Event.SUCCEED: State.COMPLETED,
    Event.REJECT: State.FAILED,
    Event.RETRY: State.RETRYING,
    Event.EXHAUST: State.DEAD_LETTER,
    Event.RELEASE: State.SCHEDULED,
    Event.SNOOZE: State.DELAYED,
}
"""What becomes of a running job whose attempt ended so."""

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")
LIFETIME_EXCEEDED = Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEASE_EXPIRED = Failure(Category.SYSTEM, "lease expired", code="lease_expired")

DEPTH_MAX = 100
BREADTH_MAX = 1_000
"""So many jobs may be on the way to one, itself included; for so many others may one wait."""


def has_come(instant: datetime, now: datetime) -> bool:
    """Tell whether *instant* is over: leases, lifetimes, windows and terms end at equality."""
    return now >= instant


def is_held(*, is_live: bool, until: datetime | None, now: datetime) -> bool:
    """Tell whether a key keeps others out: its job has not ended, or its window has not."""
    return is_live or (until is not None and not has_come(until, now))


class Awaited(NamedTuple):
    """What a job waits for: so many more, unless one of them has ended it."""

    missing: int
    failed_dependency: int | None = None
    """The place of the first dependency whose end also ends its dependents."""


def awaited(mode: Mode, states: Sequence[State]) -> Awaited:
    """Return what a job waits for whose dependencies are in *states* (S1-60, S1-61, C26, C28)."""
    unfinished = sum(state not in ENDED for state in states)
    failed = [n for n, state in enumerate(states) if state in ENDED - {State.COMPLETED}]
    if mode is Mode.ANY:  # what has been pruned had ended, so that none at all is no wait either
        return Awaited(1 if states and unfinished == len(states) else 0)
    if mode is Mode.ALL and failed:
        return Awaited(unfinished, failed[0])
    return Awaited(unfinished)


def dependency_failed(failed: str, state: State) -> Failure:
    """Return why a job ended that waited for *failed*, or for one that did (S1-71 to S1-73)."""
    category = {
        State.FAILED: Category.PERMANENT,
        State.DEAD_LETTER: Category.SYSTEM,
        State.CANCELLED: Category.CANCELLED,
    }[state]
    message = f"it waited for job {failed}, which ended as {state}"
    return Failure(category, message, code="dependency_failed", failed_dependency=failed)


def decision(*, attempt: int, max_attempts: int, policy: Policy, outcome: Outcome) -> Decision:
    """Return what a running job's attempt number *attempt* leads to."""
    match outcome:
        case Succeeded(result):
            return _decision(Event.SUCCEED, AttemptOutcome.SUCCEEDED, result=result)
        case Snoozed(delay):
            return _decision(Event.SNOOZE, AttemptOutcome.SNOOZED, delay=delay, is_counted=False)
        case Released():
            return _decision(Event.RELEASE, AttemptOutcome.RELEASED, is_counted=False)
        case Unreadable(failure, returns, waited):
            return _unreadable(failure, returns, waited)
        case Failed(failure, least_delay):
            pass
    if not _may_be_tried_again(failure.category, policy):
        return _decision(Event.REJECT, AttemptOutcome.FAILED, failure=failure)
    if attempt >= max_attempts:  # every attempt that was started counts, the first included
        return _decision(Event.EXHAUST, AttemptOutcome.FAILED, failure=failure)
    delay = max(backoff(policy, attempt), least_delay or 0.0)
    return _decision(Event.RETRY, AttemptOutcome.FAILED, failure=failure, delay=delay)


UNREADABLE_DELAYS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""The last one repeats."""


def _unreadable(failure: Failure, returns: int, waited: float) -> Decision:
    """For an hour, others may try to read it; none of that counts."""
    if waited < 3600:
        delay = UNREADABLE_DELAYS[min(returns, len(UNREADABLE_DELAYS) - 1)]
        outcome = AttemptOutcome.UNREADABLE
        return _decision(Event.RETRY, outcome, failure=failure, delay=delay, is_counted=False)
    message = f"{failure.message}; for 60 minutes no worker could read it"
    ended = replace(failure, category=Category.PERMANENT, message=message)
    return _decision(Event.REJECT, AttemptOutcome.FAILED, failure=ended)


def _decision(
    event: Event,
    outcome: AttemptOutcome,
    *,
    delay: float = 0.0,
    result: Body | None = None,
    failure: Failure | None = None,
    is_counted: bool = True,
) -> Decision:
    return Decision(event, AFTER[event], outcome, delay, result, failure, is_counted)


def _may_be_tried_again(category: Category, policy: Policy) -> bool:
    return {
        Category.TEMPORARY: True,
        Category.TIMEOUT: policy.on_timeout,
        Category.SYSTEM: policy.on_system,
        Category.PERMANENT: False,
        Category.CANCELLED: False,
    }[category]


def backoff(policy: Policy, attempt: int) -> float:
    """Return the seconds to wait after failed attempt *attempt*; jitter has no place in a model."""
    how = policy.backoff
    assert not how.jitter
    planned = {
        "constant": lambda: how.initial_delay,
        "linear": lambda: how.initial_delay * attempt,
        "exponential": lambda: how.initial_delay * how.multiplier ** (attempt - 1),
        "custom": lambda: (how.delays[attempt - 1 :] or how.delays[-1:])[0],
    }[how.strategy]()
    return min(planned, how.max_delay)


def turns(weights: Mapping[str, int]) -> list[str]:
    """Return one row of turns: a queue of weight w comes up at the odd (2w)ths of the row."""
    # Weights that are multiples of a lesser row repeat it; the turns come in the same order.
    names = list(weights)
    marks = [
        ((2 * turn + 1) / (2 * weight), names.index(name), name)
        for name, weight in weights.items()
        for turn in range(weight)
    ]
    return [name for _, _, name in sorted(marks)]


def order(weights: Mapping[str, int], turn: int) -> list[str]:
    """Return the queues in the order in which their turns come up."""
    row = turns(weights)
    return list(dict.fromkeys(row[(turn + step) % len(row)] for step in range(len(row))))


def entitled(weights: Mapping[str, int], *, turn: int, limit: int) -> dict[str, int]:
    """Return how many of the next *limit* turns are each queue's."""
    row = turns(weights)
    given = dict.fromkeys(weights, 0)
    for step in range(limit):
        given[row[(turn + step) % len(row)]] += 1
    return given


def too_slow(policy: Policy) -> Failure:
    """Return the failure of an attempt whose lease lasted as long as it may."""
    message = f"ran longer than its timeout of {policy.timeout:g} s"
    return Failure(Category.TIMEOUT, message, code="execution_timeout")


def microseconds(instant: datetime) -> int:
    """Return a time as the number that it is at least of a lease given then."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def seconds(amount: float) -> timedelta:
    """Return a duration."""
    return timedelta(seconds=amount)
