"""Graphs of jobs for the tests: who waits for whom, and bringing each to its end."""

from __future__ import annotations

from typing import Any

from conformance.harness import Harness
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.job import Category, ClaimedJob, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed

REJECTED = Failed(Failure(Category.PERMANENT, "no such user", code="404"))


def after(*on: str | int, mode: Mode = Mode.ALL, gathers: bool = False) -> Dependencies:
    return Dependencies(on, mode, gathers)


def any_of(*on: str | int) -> Dependencies:
    return after(*on, mode=Mode.ANY)


def ended(*on: str | int) -> Dependencies:
    return after(*on, mode=Mode.ENDED)


def claim_of(h: Harness, type: str) -> ClaimedJob:
    """Claim the next job of *type*, and see that there is one."""
    return h.take(types=frozenset({type}))


def bring(h: Harness, job_id: str, state: State) -> Any:
    """Bring a SCHEDULED job of a type of its own into a terminal *state*; return the reply."""
    if state is State.CANCELLED:
        return h.cancel(job_id)
    claimed = claim_of(h, h.get(job_id).type)
    assert claimed.id == job_id
    match state:
        case State.COMPLETED:
            return h.succeed(claimed)
        case State.FAILED:
            return h.reject(claimed)
        case _:
            assert state is State.DEAD_LETTER
            return h.fail(claimed)


ENDINGS = (State.FAILED, State.DEAD_LETTER, State.CANCELLED)


def missing(h: Harness, job_id: str) -> int:
    """Return how many more a job waits for."""
    waits = h.get(job_id).waits
    assert waits is not None
    return waits.missing


def depth(h: Harness, job_id: str) -> int:
    """Return the number of jobs on the longest way to a job."""
    waits = h.get(job_id).waits
    assert waits is not None
    return waits.depth


def failed_dependency(h: Harness, job_id: str) -> str | None:
    """Return the job whose failure ended this one."""
    failure = h.get(job_id).failure
    assert failure is not None
    return failure.failed_dependency
