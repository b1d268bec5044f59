"""What every store asks of records before it dumps or loads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.errors import StateConflictError

NOT_ACCEPTED = (
    "new jobs are refused: a move of its jobs to another store was begun; submit to that store"
)


def loadable(records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """Return *records* by id, or raise StateConflictError: a lease is valid in one store only."""
    found: dict[str, JobRecord] = {}
    for record in records:
        job = record.job
        if job.state is State.RUNNING:
            raise StateConflictError(
                f"job {job.id} is {job.state}; only a job that nobody runs can move",
                job_id=job.id,
                state=job.state,
            )
        found.setdefault(job.id, record)
    return found


def held_up(record: JobRecord) -> JobRecord:
    """Have a job wait here for a slot of its key, whether or not it had one where it was."""
    job = record.job
    if job.concurrency_key is None or job.state is not State.SCHEDULED:
        return record
    return replace(record, job=replace(job, state=State.PENDING, scheduled_at=None))


def needs_key(record: JobRecord) -> bool:
    """Tell whether the job must have its key; one that has ended can do without (C15)."""
    return record.holds_key and not record.job.state.is_terminal


def fitting(sizes: Iterable[tuple[int, int]]) -> list[int]:
    """Return as many of the (number, bytes) as make one page: at least one, if there is one."""
    numbers: list[int] = []
    total = 0
    for number, size in sizes:
        total += size
        if numbers and total > DUMP_BYTES:
            break
        numbers.append(number)
    return numbers


def unreadable(job_id: str, state: State) -> StateConflictError:
    """Return what is raised for a live job that would arrive as another."""
    return StateConflictError(
        f"job {job_id} cannot be read, so it cannot move; cancel it first",
        job_id=job_id,
        state=state,
    )
