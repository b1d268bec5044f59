"""Whole jobs out of one store and into another, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fencepost.core.job.job import JobRecord
from fencepost.core.values.instants import from_us_or_none, to_us
from fencepost.errors import DuplicateJobError, UnknownDependencyError
from fencepost.store.interface.transfer import Dump, Loaded, LoadReply, Present
from fencepost.store.memory.jobs.finish import judge_again
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.rows import attempts_of, job_of
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import has_room, hold
from fencepost.store.sql.transfer import fitting, loadable, needs_key

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def dump(world: MemoryWorld, after: int, limit: int) -> Dump:
    """Return the jobs that were submitted after position *after*."""
    jobs, now = world.jobs, world.now
    found = islice(jobs.roll.after(after), limit)
    numbers = fitting((record.seq, _size(record)) for record in found)
    records = [_copy_of(jobs, jobs.roll[number], now) for number in numbers]
    return Dump(records, numbers[-1] if numbers else after)


def _size(record: Record) -> int:
    bodies = (record.payload, record.result, record.checkpoint)
    return sum(len(body.data) for body in bodies if body is not None)


def _copy_of(jobs: JobTable, record: Record, now: int) -> JobRecord:
    return JobRecord(
        job=job_of(record, now),
        attempts=tuple(attempts_of(record)),
        key_window=record.key_window,
        holds_key=record.holds_key,
        key_ends_at=from_us_or_none(record.key_ends_at) if record.holds_key else None,
        is_dead_letter=record.dead_number is not None,
        dependencies=tuple(parent.id for parent in jobs.parents(record)),
    )


def load(world: MemoryWorld, records: Sequence[JobRecord]) -> list[LoadReply]:
    """Store jobs that are not there yet, at the end of the order of submission."""
    jobs, now = world.jobs, world.now
    loadable(records)
    replies: list[LoadReply] = []
    added: list[tuple[Record, JobRecord]] = []
    for record in records:
        job = record.job
        if jobs.get(job.id) is not None:
            replies.append(Present(job.id))
            continue
        new = _record_of(jobs, record, has_key=_takes_key(jobs, record, now))
        if not has_room(jobs, new):
            hold(new)
        jobs.add(new)
        added.append((new, record))
        replies.append(Loaded(job.id))
    _link_all(jobs, added, now)
    # Whoever has the slot may come with the next page.
    jobs.slots.postpone()
    if any(record.is_dead_letter for record in records):
        _order_dead(jobs)
    return replies


def _link_all(jobs: JobTable, added: Sequence[tuple[Record, JobRecord]], now: int) -> None:
    """Put jobs behind those that they wait for: these may have ended here since.

    Once all are there, for one that gathers waits for what was submitted after it.
    """
    for new, record in added:
        _link(jobs, new, record.dependencies)
    for new, _ in added:
        if new.is_waiting_for_others:
            judge_again(jobs, new, now)


def _link(jobs: JobTable, record: Record, dependencies: Sequence[str]) -> None:
    for job_id in dependencies:
        parent = jobs.get(job_id)
        if parent is not None:
            jobs.link(record, parent)
        elif record.is_waiting_for_others:
            raise UnknownDependencyError(job_id)


def _takes_key(jobs: JobTable, record: JobRecord, now: int) -> bool:
    """Tell whether the job gets its key here, or raise DuplicateJobError."""
    key = record.job.key
    if key is None or not record.holds_key:
        return False
    holder = jobs.holder(record.job.type, key, now)
    if holder is not None and needs_key(record):
        raise DuplicateJobError(type=record.job.type, key=key, existing_id=holder.id)
    return holder is None


def _record_of(jobs: JobTable, record: JobRecord, *, has_key: bool) -> Record:
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
        callback_url=job.callback_url,
        concurrency_key=job.concurrency_key,
        submitter=job.submitter,
    )


def _order_dead(jobs: JobTable) -> None:
    """Number the dead letters anew: they came in the order of submission, not of death."""
    dead = sorted(jobs.dead.after(0), key=lambda record: (record.completed_at or 0, record.seq))
    for record in dead:
        jobs.change(record, dead_number=None)
    for record in dead:
        jobs.change(record, dead_number=jobs.next_death())


def accept_jobs(world: MemoryWorld, is_accepted: bool) -> None:
    """Refuse new jobs from now on, or accept them again."""
    world.jobs.is_accepting = is_accepted
