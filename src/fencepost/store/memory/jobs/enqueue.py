"""How jobs come in: new ones, dead letters as fresh ones, and old ones by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.flows.dependencies import Dependencies, Mode, Waits, check_place
from fencepost.core.flows.dependents import Parent, enter, judge
from fencepost.core.job.job import Encoding, NewJob
from fencepost.core.job.lifecycle import DEAD, Event, State, advance
from fencepost.core.job.lifetime import check_due
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us, seconds_to_us, to_us
from fencepost.errors import DuplicateJobError, UnknownDependencyError
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import (
    Replay,
    Replayed,
    ReplayReply,
    RetryReply,
    RetryRequest,
    Sealed,
    as_replay,
)
from fencepost.store.interface.replies import (
    Conflict,
    Duplicate,
    Enqueued,
    EnqueueReply,
    Moved,
    NotFound,
    TooLate,
)
from fencepost.store.memory.jobs.edit import hasten, set_priority
from fencepost.store.memory.jobs.finish import depth_of
from fencepost.store.memory.jobs.record import Changes, Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit, held, hold
from fencepost.store.memory.records.webhooks import call_back

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def enqueue(
    world: MemoryWorld, jobs: Sequence[NewJob], *, atomic: bool = False
) -> list[EnqueueReply]:
    """Store new jobs."""
    return accept(world.jobs, world.clock, jobs, atomic=atomic, now=world.now)


def accept(
    jobs: JobTable, clock: Clock, new: Sequence[NewJob], *, atomic: bool, now: int
) -> list[EnqueueReply]:
    """Store new jobs, each unless its key is held; with *atomic* a refusal raises."""
    replies: list[EnqueueReply] = []
    stored: list[Record] = []
    for each in new:
        check_due(each, now)
    for place, each in enumerate(new):
        parents = _parents(jobs, each, stored, place)
        reply, record = _enqueue(jobs, clock, each, parents, atomic=atomic, now=now)
        replies.append(reply)
        stored.append(record)
    admit(jobs, now)
    return [
        replace(reply, state=record.state) if record.concurrency_key is not None else reply
        for reply, record in zip(replies, stored, strict=True)
    ]


def _parents(jobs: JobTable, new: NewJob, stored: Sequence[Record], place: int) -> list[Record]:
    """Return the jobs that *new* is to wait for, or raise DependencyError."""
    found: dict[str, Record] = {}  # each once: an id, a place and a key may name the same job
    for on in new.after.on if new.after is not None else ():
        parent = stored[check_place(on, place)] if isinstance(on, int) else jobs.get(on)
        if parent is None:
            raise UnknownDependencyError(str(on))
        found[parent.id] = parent
    return list(found.values())


def _enqueue(
    jobs: JobTable,
    clock: Clock,
    new: NewJob,
    parents: Sequence[Record],
    *,
    atomic: bool,
    now: int,
) -> tuple[EnqueueReply, Record]:
    holder = jobs.holder(new.type, new.key.value, now) if new.key else None
    if new.key is None or holder is None:
        record = _new_record(jobs, clock, new, now)
        _add_behind(jobs, record, parents, new.after, now)
        return Enqueued(record.id, record.type, record.state), record
    is_rejected = new.key.refuses(holder.queue)
    if atomic and is_rejected:
        raise DuplicateJobError(type=new.type, key=new.key.value, existing_id=holder.id)
    reply = Duplicate(holder.id, new.type, new.key.value, holder.state, is_rejected)
    return reply, holder


def _add_behind(
    jobs: JobTable,
    record: Record,
    parents: Sequence[Record],
    after: Dependencies | None,
    now: int,
) -> None:
    """Store a new job behind those that it waits for, if any, or raise DependencyDepthError."""
    hold(record)
    if after is None or not parents:
        jobs.add(record)
        return
    entry = enter(
        after.mode, record.priority, [as_parent(each) for each in parents], gathers=after.gathers
    )
    record.waits, record.priority = entry.waits, entry.priority
    if entry.decision is not None or entry.waits.missing:
        record.state, record.scheduled_at = State.PENDING, None
    if entry.decision is not None:
        state = entry.decision.state
        record.state, record.failure, record.completed_at = state, entry.decision.failure, now
        record.dead_number = jobs.next_death() if state in DEAD else None
    jobs.add(record)
    for parent in parents:
        jobs.link(record, parent)
    if record.state.is_terminal:
        call_back(jobs, record, now)


def as_parent(record: Record) -> Parent:
    """Return *record* as one that waits for it sees it."""
    return Parent(record.id, record.state, record.priority, depth_of(record), record.failure)


def _new_record(jobs: JobTable, clock: Clock, new: NewJob, now: int) -> Record:
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
        flow=new.flow,
        node=new.node,
        callback_url=new.callback_url,
        concurrency_key=new.concurrency_key,
        submitter=new.submitter,
    )


def _window_end(window: float | None, now: int) -> int | None:
    return None if window is None else now + seconds_to_us(window)


def retry(world: MemoryWorld, requests: Sequence[RetryRequest]) -> list[RetryReply]:
    """Run jobs again by hand."""
    now = world.now
    return [reopen(world.jobs, request, now) for request in requests]


def reopen(jobs: JobTable, request: RetryRequest, now: int) -> RetryReply:
    """Open a terminal job again by hand, its key re-taken with it (C36, S3-17)."""
    record = jobs.get(request.job_id)
    if record is None:
        return NotFound(request.job_id)
    if not record.state.is_terminal:
        return hasten(jobs, record, request, now)
    if record.state is State.COMPLETED:
        return Conflict(record.id, record.state)
    ends = now + seconds_to_us(record.policy.lifetime)
    if now + seconds_to_us(request.delay) >= ends:
        return TooLate(record.id, from_us(ends))
    waits = _waits_again(jobs, record)
    if isinstance(waits, Conflict):
        return waits
    if duplicate := _key_taken(jobs, record, now):
        return duplicate
    was = record.state
    if record.key is not None:
        jobs.vacate_key(record)
    reopened = _reopened(record, request, waits, now)
    jobs.change(record, **held(record, reopened, Event.REOPEN_WAITING))
    if request.priority is not None:
        set_priority(jobs, record, request.priority)
    _hold_up_again(jobs, record)
    moved = Moved(record.id, record.type, record.state, was)
    return with_admitted([moved], admit(jobs, now))[0]


def _waits_again(jobs: JobTable, record: Record) -> Waits | Conflict | None:
    """Return what a job that has ended would wait for now, or whose state forbids it."""
    if record.waits is None:
        return None
    parents = jobs.parents(record)
    missing, doom = judge(record.waits.mode, [parent.state for parent in parents])
    if doom is not None:
        return Conflict(record.id, parents[doom].state, parents[doom].id)
    return replace(record.waits, missing=missing)


def _hold_up_again(jobs: JobTable, reopened: Record) -> None:
    """Have those wait again for a job that they had counted as ended."""
    for child in jobs.children(reopened):
        waits = child.waits
        if child.is_waiting_for_others and waits is not None and waits.mode is Mode.ENDED:
            jobs.change(child, waits=replace(waits, missing=waits.missing + 1))


def _reopened(record: Record, request: RetryRequest, waits: Waits | None, now: int) -> Changes:
    is_later = request.delay > 0
    event = Event.REOPEN_LATER if is_later else Event.REOPEN
    if waits is not None and waits.missing:
        event = Event.REOPEN_WAITING
    changes: Changes = {
        "state": advance(record.state, event),
        "waits": waits,
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
    if event is Event.REOPEN:
        changes["scheduled_at"] = now
    if request.reset_attempts:
        changes["attempt"] = 0
        changes["max_attempts"] = record.policy.max_attempts
    return changes


def replay(world: MemoryWorld, requests: Sequence[str | Replay]) -> list[ReplayReply]:
    """Put a fresh job in the place of each dead letter."""
    now = world.now
    return [replace_dead(world.jobs, as_replay(request), now) for request in requests]


def replace_dead(jobs: JobTable, request: Replay, now: int) -> ReplayReply:
    """Store a fresh job in the place of a dead letter; the key passes to it (S3-26, S3-27)."""
    dead = jobs.get(request.job_id)
    if dead is None or dead.dead_number is None:
        return NotFound(request.job_id)
    if request.payload is None and dead.payload.encoding is Encoding.ENCRYPTED:
        return Sealed(dead.id)
    waits = _waits_again(jobs, dead)
    if isinstance(waits, Conflict):
        return waits
    if duplicate := _key_taken(jobs, dead, now):
        return duplicate
    fresh = _copy_of(jobs, dead, request, waits, now)
    jobs.change(dead, dead_number=None)
    hold(fresh)
    jobs.add(fresh)
    for parent in jobs.parents(dead):
        jobs.link(fresh, parent)
    admit(jobs, now)
    return Replayed(dead.id, fresh.id, fresh.type, fresh.state)


def _copy_of(
    jobs: JobTable, dead: Record, request: Replay, waits: Waits | None, now: int
) -> Record:
    is_due = waits is None or not waits.missing
    return Record(
        seq=jobs.next_seq(),
        id=id_text(request.id or jobs.clock.new_id()),
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
        state=advance(State.PENDING, Event.READY) if is_due else State.PENDING,
        max_attempts=dead.policy.max_attempts,
        updated_at=now,
        run_at=now,
        expires_at=now + seconds_to_us(dead.policy.lifetime),
        scheduled_at=now if is_due else None,
        holds_key=dead.key is not None,
        key_ends_at=_window_end(dead.key_window, now),
        flow=dead.flow,
        node=dead.node,
        waits=waits,
        callback_url=request.callback_url or dead.callback_url,
        concurrency_key=dead.concurrency_key,
        submitter=dead.submitter,
    )


def _key_taken(jobs: JobTable, record: Record, now: int) -> Duplicate | None:
    """Return who else holds the job's key, if anybody does."""
    if record.key is None:
        return None
    holder = jobs.holder(record.type, record.key, now)
    if holder is None or holder is record:
        return None
    return Duplicate(holder.id, record.type, record.key, holder.state, is_rejected=True)
