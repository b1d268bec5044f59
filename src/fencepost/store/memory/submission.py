"""How jobs come in: new ones, dead letters as fresh ones, and old ones by hand."""

from __future__ import annotations

from fencepost.clock import Clock
from fencepost.core.idempotency import OnDuplicate
from fencepost.core.ids import id_text
from fencepost.core.instants import seconds_to_us, to_us
from fencepost.core.job import Encoding, NewJob
from fencepost.core.lifecycle import Event, State, advance
from fencepost.errors import DuplicateJobError
from fencepost.store.memory.jobs import Jobs
from fencepost.store.memory.record import Changes, Record
from fencepost.store.replies import (
    Conflict,
    Duplicate,
    Enqueued,
    EnqueueReply,
    Moved,
    NotFound,
    Replayed,
    ReplayReply,
    RetryReply,
    Sealed,
)
from fencepost.store.requests import Replay, RetryRequest


def enqueue(jobs: Jobs, clock: Clock, new: NewJob, *, atomic: bool, now: int) -> EnqueueReply:
    """Store one new job, unless its key is held; with *atomic* a refusal raises."""
    holder = jobs.holder(new.type, new.key.value, now) if new.key else None
    if new.key is None or holder is None:
        record = _new_record(jobs, clock, new, now)
        jobs.add(record)
        return Enqueued(record.id, record.type, record.state)
    is_rejected = new.key.on_duplicate is OnDuplicate.REJECT
    if atomic and is_rejected:
        raise DuplicateJobError(type=new.type, key=new.key.value, existing_id=holder.id)
    return Duplicate(holder.id, new.type, new.key.value, holder.state, is_rejected)


def _new_record(jobs: Jobs, clock: Clock, new: NewJob, now: int) -> Record:
    asked = now + seconds_to_us(new.delay) if new.run_at is None else to_us(new.run_at)
    is_due = asked <= now
    state = advance(State.PENDING, Event.READY if is_due else Event.DELAY)
    window = new.key.window if new.key else None
    return Record(
        seq=jobs.next_seq(),
        id=id_text(new.id or clock.new_id()),
        type=new.type,
        queue=new.queue,
        policy=new.policy,
        payload=new.payload,
        key=new.key.value if new.key else None,
        key_window=window,
        correlation_id=new.correlation_id,
        replay_of=None,
        created_at=now,
        priority=new.priority,
        tags=dict(new.tags),
        state=state,
        max_attempts=new.policy.max_attempts,
        updated_at=now,
        run_at=max(asked, now),
        expires_at=now + seconds_to_us(new.policy.lifetime),
        scheduled_at=now if is_due else None,
        holds_key=new.key is not None,
        key_ends_at=_window_end(window, now),
    )


def _window_end(window: float | None, now: int) -> int | None:
    return None if window is None else now + seconds_to_us(window)


def retry(jobs: Jobs, request: RetryRequest, now: int) -> RetryReply:
    """Open a terminal job again by hand, its key re-taken with it (C36, S3-17)."""
    record = jobs.get(request.job_id)
    if record is None:
        return NotFound(request.job_id)
    if not record.state.is_terminal or record.state is State.COMPLETED:
        return Conflict(record.id, record.state)
    if duplicate := _key_taken(jobs, record, now):
        return duplicate
    was = record.state
    if record.key is not None:
        jobs.vacate_key(record)
    jobs.change(record, **_reopened(record, request, now))
    return Moved(record.id, record.type, record.state, was)


def _reopened(record: Record, request: RetryRequest, now: int) -> Changes:
    is_later = request.delay > 0
    changes: Changes = {
        "state": advance(record.state, Event.REOPEN_LATER if is_later else Event.REOPEN),
        "run_at": now + seconds_to_us(request.delay) if is_later else now,
        "expires_at": now + seconds_to_us(record.policy.lifetime),
        "updated_at": now,
        "completed_at": None,
        "failure": None,
        "result": None,
        "dead_number": None,
        "max_attempts": record.attempt + 1,
        "holds_key": record.key is not None,
        "key_ends_at": _window_end(record.key_window, now),
    }
    if not is_later:
        changes["scheduled_at"] = now
    if request.priority is not None:
        changes["priority"] = request.priority
    if request.reset_attempts:
        changes["attempt"] = 0
        changes["max_attempts"] = record.policy.max_attempts
    return changes


def replay(jobs: Jobs, clock: Clock, request: Replay, now: int) -> ReplayReply:
    """Store a fresh job in the place of a dead letter; the key passes to it (S3-26, S3-27)."""
    dead = jobs.get(request.job_id)
    if dead is None or dead.dead_number is None:
        return NotFound(request.job_id)
    if request.payload is None and dead.payload.encoding is Encoding.ENCRYPTED:
        return Sealed(dead.id)
    if duplicate := _key_taken(jobs, dead, now):
        return duplicate
    fresh = _copy_of(dead, request, jobs, clock, now)
    jobs.change(dead, dead_number=None)
    jobs.add(fresh)
    return Replayed(dead.id, fresh.id, fresh.type, fresh.state)


def _copy_of(dead: Record, request: Replay, jobs: Jobs, clock: Clock, now: int) -> Record:
    return Record(
        seq=jobs.next_seq(),
        id=id_text(request.id or clock.new_id()),
        type=dead.type,
        queue=dead.queue,
        policy=dead.policy,
        payload=request.payload or dead.payload,
        key=dead.key,
        key_window=dead.key_window,
        correlation_id=dead.correlation_id,
        replay_of=dead.id,
        created_at=now,
        priority=dead.priority,
        tags=dict(dead.tags),
        state=advance(State.PENDING, Event.READY),
        max_attempts=dead.policy.max_attempts,
        updated_at=now,
        run_at=now,
        expires_at=now + seconds_to_us(dead.policy.lifetime),
        scheduled_at=now,
        holds_key=dead.key is not None,
        key_ends_at=_window_end(dead.key_window, now),
    )


def _key_taken(jobs: Jobs, record: Record, now: int) -> Duplicate | None:
    """Return who else holds the job's key, if anybody does."""
    if record.key is None:
        return None
    holder = jobs.holder(record.type, record.key, now)
    if holder is None or holder is record:
        return None
    return Duplicate(holder.id, record.type, record.key, holder.state, is_rejected=True)
