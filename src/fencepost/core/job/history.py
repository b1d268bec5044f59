"""The states that a job has been in, derived from what a store keeps anyway.

Recording every change would cost each job two more rows. Known without that: when a job was
submitted, when each attempt began and how it ended, when it last became claimable, and when it
ended. Unknown: when it became claimable before an earlier attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from fencepost.core.job.job import Attempt, AttemptOutcome, Category, Failure, Job
from fencepost.core.job.lifecycle import State


class Change(msgspec.Struct, frozen=True):
    """A job entered *state*, and why."""

    state: State
    at: datetime
    reason: str


def history(job: Job, attempts: Sequence[Attempt]) -> list[Change]:
    """Return the states of *job*, oldest first; *attempts* are all that it had."""
    changes = [Change(State.PENDING, job.created_at, _submission(job))]
    for number, attempt in enumerate(attempts, 1):
        following = attempts[number] if number < len(attempts) else None
        if following is None:
            changes += _readiness(job, changes[-1], attempt.started_at)
        changes += _attempt(job, attempt, following)
    changes += _since(job, changes[-1])
    return changes


def _submission(job: Job) -> str:
    origin = "submitted" if job.replay_of is None else f"submitted in place of {job.replay_of}"
    return origin if job.waits is None else f"{origin}, to wait for others"


def _attempt(job: Job, attempt: Attempt, following: Attempt | None) -> Iterator[Change]:
    yield Change(
        State.RUNNING, attempt.started_at, f"attempt {attempt.number} began on {attempt.worker}"
    )
    if attempt.ended_at is not None:
        state = _state_after(job, attempt, following)
        yield Change(state, attempt.ended_at, _reason(attempt.outcome.value, attempt.failure))


_AFTER = {
    AttemptOutcome.SUCCEEDED: State.COMPLETED,
    AttemptOutcome.RELEASED: State.SCHEDULED,
    AttemptOutcome.SNOOZED: State.DELAYED,
    AttemptOutcome.UNREADABLE: State.RETRYING,
    AttemptOutcome.CANCELLED: State.CANCELLED,
}


def _state_after(job: Job, attempt: Attempt, following: Attempt | None) -> State:
    state = _AFTER.get(attempt.outcome)
    if state is not None:
        return state
    if following is None:
        is_last_word = job.completed_at is not None and job.completed_at == attempt.ended_at
        return job.state if is_last_word else State.RETRYING
    if following.number > attempt.number:
        return State.RETRYING
    # Attempts count from 1 again: the job had ended, and was reopened.
    category = Category.SYSTEM if attempt.failure is None else attempt.failure.category
    return State.FAILED if category is Category.PERMANENT else State.DEAD_LETTER


def _reason(outcome: str, failure: Failure | None) -> str:
    return outcome if failure is None else f"{failure.category}: {failure.message}"


def _readiness(job: Job, last: Change, until: datetime | None = None) -> Iterator[Change]:
    """Yield that the job became claimable after *last*, if it did."""
    at = job.scheduled_at
    if at is None or last.state is State.SCHEDULED or last.state is State.RUNNING:
        return
    if last.at <= at and (until is None or at <= until):
        yield Change(State.SCHEDULED, at, "became claimable")


def _since(job: Job, last: Change) -> Iterator[Change]:
    """Yield what happened after the last attempt, or before the first."""
    if job.is_held:
        if last.state is not State.PENDING:
            yield Change(State.PENDING, job.updated_at, "waits for a slot of its concurrency key")
    elif job.state is State.DELAYED and last.state is not State.DELAYED:
        yield Change(State.DELAYED, job.updated_at, "waits for its time")
    elif job.state is State.SCHEDULED or (job.state.is_terminal and not last.state.is_terminal):
        yield from _readiness(job, last)
    if job.completed_at is not None and not last.state.is_terminal:
        yield Change(job.state, job.completed_at, _reason("ended", job.failure))
