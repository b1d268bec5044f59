"""Records as the frozen values that callers see. Tags are copied: a caller's dict is not ours."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import (
    Attempt,
    AttemptOutcome,
    ClaimedJob,
    DeadLetter,
    Failure,
    Job,
    Lease,
    Ownership,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.values.ids import attempt_id
from fencepost.core.values.instants import from_us, from_us_or_none
from fencepost.store.memory.jobs.record import Record


def job_of(record: Record, now: int) -> Job:
    """Return the job as it stands at *now*."""
    return Job(
        id=record.id,
        type=record.type,
        queue=record.queue,
        priority=record.priority,
        state=record.state,
        attempt=record.attempt,
        max_attempts=record.max_attempts,
        created_at=from_us(record.created_at),
        updated_at=from_us(record.updated_at),
        run_at=from_us(record.run_at),
        expires_at=from_us(record.expires_at),
        scheduled_at=from_us_or_none(record.scheduled_at),
        started_at=from_us_or_none(record.started_at),
        completed_at=from_us_or_none(record.completed_at),
        lease=_ownership_of(record, now),
        lease_version=record.lease_version,
        policy=record.policy,
        payload=record.payload,
        result=record.result,
        failure=record.failure,
        progress=record.progress,
        checkpoint=record.checkpoint,
        key=record.key,
        tags=dict(record.tags),
        correlation_id=record.correlation_id,
        replay_of=record.replay_of,
        callback_url=record.callback_url,
        waits=waits_of(record),
        flow=record.flow,
        node=record.node,
        concurrency_key=record.concurrency_key,
        submitter=record.submitter,
    )


def waits_of(record: Record) -> Waits | None:
    """Return what the job waits for; one that is not PENDING misses nothing."""
    waits = record.waits
    if waits is None or record.state is State.PENDING:
        return waits
    return replace(waits, missing=0)


def _ownership_of(record: Record, now: int) -> Ownership | None:
    if record.state is not State.RUNNING:
        return None
    assert record.worker is not None and record.lease_expires_at is not None
    return Ownership(
        worker=record.worker,
        version=record.lease_version,
        expires_at=from_us(record.lease_expires_at),
        expired=now >= record.lease_expires_at,
    )


def claimed_job_of(record: Record, lease_ttl: float, last_version: int) -> ClaimedJob:
    """Return a running job for the worker that has just claimed it."""
    assert record.token is not None and record.lease_expires_at is not None
    return ClaimedJob(
        id=record.id,
        type=record.type,
        queue=record.queue,
        priority=record.priority,
        attempt=record.attempt,
        max_attempts=record.max_attempts,
        lease=Lease(record.token, record.lease_version, from_us(record.lease_expires_at)),
        lease_ttl=lease_ttl,
        payload=record.payload,
        policy=record.policy,
        key=record.key,
        tags=dict(record.tags),
        correlation_id=record.correlation_id,
        checkpoint=record.checkpoint,
        flow=record.flow,
        has_dependencies=record.waits is not None,
        waited=_waited(record),
        last_version=last_version,
    )


def _waited(record: Record) -> float:
    """Return for how many seconds a job had been claimable when it was claimed."""
    assert record.scheduled_at is not None and record.started_at is not None
    return max(record.started_at - record.scheduled_at, 0) / 1e6


def attempt_of(
    record: Record, outcome: AttemptOutcome, *, ended_at: int | None, failure: Failure | None
) -> Attempt:
    """Return the attempt that *record*, still RUNNING, is in."""
    assert record.worker is not None and record.started_at is not None
    return Attempt(
        id=attempt_id(record.id, record.lease_version),
        job_id=record.id,
        previous_id=record.past[-1].id if record.past else None,
        number=record.attempt,
        lease_version=record.lease_version,
        worker=record.worker,
        outcome=outcome,
        started_at=from_us(record.started_at),
        ended_at=from_us_or_none(ended_at),
        failure=failure,
    )


def attempts_of(record: Record) -> list[Attempt]:
    """Return every attempt, oldest first, the running one included."""
    if record.state is not State.RUNNING:
        return list(record.past)
    running = attempt_of(record, AttemptOutcome.RUNNING, ended_at=None, failure=None)
    return [*record.past, running]


def dead_letter_of(record: Record) -> DeadLetter:
    """Return a job on the dead-letter list as its record there."""
    assert record.failure is not None and record.completed_at is not None
    return DeadLetter(
        job_id=record.id,
        type=record.type,
        queue=record.queue,
        state=record.state,
        attempts=record.attempt,
        failure=record.failure,
        dead_at=from_us(record.completed_at),
    )
