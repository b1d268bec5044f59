"""Whole jobs out of one store and into another, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from fencepost.core.instants import from_us_or_none, to_us
from fencepost.core.job import JobRecord
from fencepost.errors import DuplicateJobError, UnknownDependencyError
from fencepost.store.memory.admission import admit, hold
from fencepost.store.memory.jobs import Jobs
from fencepost.store.memory.moves import judge_again
from fencepost.store.memory.record import Record
from fencepost.store.memory.views import attempts_of, job_of
from fencepost.store.records import fitting, loadable, needs_key
from fencepost.store.replies import Dump, Loaded, LoadReply, Present


def dump(jobs: Jobs, after: int, limit: int, now: int) -> Dump:
    """Return the jobs that were submitted after position *after*."""
    found = islice(jobs.roll.after(after), limit)
    numbers = fitting((record.seq, _size(record)) for record in found)
    records = [_copy_of(jobs, jobs.roll[number], now) for number in numbers]
    return Dump(records, numbers[-1] if numbers else after)


def _size(record: Record) -> int:
    bodies = (record.payload, record.result, record.checkpoint)
    return sum(len(body.data) for body in bodies if body is not None)


def _copy_of(jobs: Jobs, record: Record, now: int) -> JobRecord:
    return JobRecord(
        job=job_of(record, now),
        attempts=tuple(attempts_of(record)),
        key_window=record.key_window,
        holds_key=record.holds_key,
        key_ends_at=from_us_or_none(record.key_ends_at) if record.holds_key else None,
        is_dead_letter=record.dead_number is not None,
        dependencies=tuple(parent.id for parent in jobs.parents(record)),
    )


def load(jobs: Jobs, records: Sequence[JobRecord], now: int) -> list[LoadReply]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    loadable(records)
    replies: list[LoadReply] = []
    for record in records:
        job = record.job
        if jobs.get(job.id) is not None:
            replies.append(Present(job.id))
            continue
        added = _record_of(jobs, record, has_key=_takes_key(jobs, record, now))
        hold(added)
        jobs.add(added)
        _link(jobs, added, record.dependencies, now)
        replies.append(Loaded(job.id))
    admit(jobs, now)
    if any(record.is_dead_letter for record in records):
        _order_dead(jobs)
    return replies


def _link(jobs: Jobs, record: Record, dependencies: Sequence[str], now: int) -> None:
    """Put a job behind those that it waits for: they may have ended here since."""
    parents = [jobs.get(job_id) for job_id in dependencies]
    for parent in parents:
        if parent is not None:
            jobs.link(record, parent)
    if not record.is_waiting_for_others:
        return
    for job_id, parent in zip(dependencies, parents, strict=True):
        if parent is None:
            raise UnknownDependencyError(job_id)
    judge_again(jobs, record, now)


def _takes_key(jobs: Jobs, record: JobRecord, now: int) -> bool:
    """Tell whether the job gets its key here, or raise DuplicateJobError."""
    key = record.job.key
    if key is None or not record.holds_key:
        return False
    holder = jobs.holder(record.job.type, key, now)
    if holder is not None and needs_key(record):
        raise DuplicateJobError(type=record.job.type, key=key, existing_id=holder.id)
    return holder is None


def _record_of(jobs: Jobs, record: JobRecord, *, has_key: bool) -> Record:
    job, ends_at = record.job, record.key_ends_at
    return Record(
        seq=jobs.next_seq(),
        id=job.id,
        type=job.type,
        queue=job.queue,
        policy=job.policy,
        payload=job.payload,
        key=job.key,
        key_window=record.key_window,
        correlation_id=job.correlation_id,
        replay_of=job.replay_of,
        created_at=to_us(job.created_at),
        priority=job.priority,
        tags=dict(job.tags),
        state=job.state,
        max_attempts=job.max_attempts,
        updated_at=to_us(job.updated_at),
        run_at=to_us(job.run_at),
        expires_at=to_us(job.expires_at),
        attempt=job.attempt,
        scheduled_at=None if job.scheduled_at is None else to_us(job.scheduled_at),
        started_at=None if job.started_at is None else to_us(job.started_at),
        completed_at=None if job.completed_at is None else to_us(job.completed_at),
        lease_version=job.lease_version,
        result=job.result,
        failure=job.failure,
        progress=job.progress,
        checkpoint=job.checkpoint,
        holds_key=has_key,
        key_ends_at=to_us(ends_at) if has_key and ends_at is not None else None,
        dead_number=jobs.next_death() if record.is_dead_letter else None,
        past=list(record.attempts),
        waits=job.waits,
        flow=job.flow,
        node=job.node,
        concurrency_key=job.concurrency_key,
    )


def _order_dead(jobs: Jobs) -> None:
    """Number the dead letters anew: they came in the order of submission, not of death."""
    dead = sorted(jobs.dead.after(0), key=lambda record: (record.completed_at or 0, record.seq))
    for record in dead:
        jobs.change(record, dead_number=None)
    for record in dead:
        jobs.change(record, dead_number=jobs.next_death())
