"""How the end of a job reads to a caller who asks for its result."""

from __future__ import annotations

from fencepost.core.crypto.envelope import shown_text
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.errors import JobCancelledError, JobFailedError, StateConflictError


def failure_of_end(job: Job) -> JobCancelledError | JobFailedError:
    """Return the error of a job that has ended and not completed."""
    if job.state is State.CANCELLED:
        return JobCancelledError(job.id)
    failure = job.failure
    return JobFailedError(
        job.id,
        category=failure.category if failure else "system",
        message=shown_text(failure.message) if failure else "no reason stored",
        failure_code=failure.code if failure else None,
    )


def no_result(job: Job) -> StateConflictError:
    """Return the error of a job whose result is asked for, and that has not completed."""
    more = "; wait for it" if not job.state.is_terminal else " and has none"
    return StateConflictError(f"job {job.id} is {job.state}{more}", job_id=job.id, state=job.state)
