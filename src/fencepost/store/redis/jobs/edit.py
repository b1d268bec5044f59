"""Edits: what operators change about a waiting job, its due time included."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from fencepost.core.job.lifecycle import HASTENED, WAITING, State, rescheduled
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.store.interface.control import (
    Conflict,
    Edit,
    Edited,
    EditReply,
    NotFound,
    RetryReply,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Moved, with_admitted
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.read import whole
from fencepost.store.redis.limits.concurrency import admit, scope_of
from fencepost.store.sql.codec import ENCODING_NUMBER
from fencepost.store.sql.control import each


def edit(env: Env, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change tags at any time, all else while the job waits (S1-106, S1-107, C46)."""
    unit = Unit(env)
    yield from unit.start()
    replies = yield from each(edits, partial(_edit, unit))
    yield from unit.commit()
    return replies


def one(unit: Unit, job_id: str) -> Plan[Kept | None]:
    """Return the job of this id; None if there is none."""
    found = yield from unit.by_id(wanted_ids([job_id]))
    return found.get(job_id.lower())


def _edit(unit: Unit, item: Edit) -> Plan[EditReply]:
    kept = yield from one(unit, item.job_id)
    if kept is None:
        return NotFound(item.job_id)
    if item.is_for_waiting and kept.state not in WAITING:
        return Conflict(item.job_id, kept.state)
    document = kept.document
    if item.run_at is not None and max(to_us(item.run_at), unit.now) >= document.expires_at:
        return TooLate(item.job_id, from_us(document.expires_at))
    if item.tags is not None:
        document.tags = dict(item.tags) or None
    if item.payload is not None:
        document.payload_encoding = ENCODING_NUMBER[item.payload.encoding]
        unit.set_payload(kept, item.payload)
    if item.correlation_id is not None:
        document.correlation_id = item.correlation_id or None
    if item.callback_url is not None:
        document.callback_url = item.callback_url or None
    if item.priority is not None:
        yield from set_priority(unit, kept, item.priority)
    moves: tuple[Moved, ...] = ()
    if item.run_at is not None:
        moved = yield from _reschedule(unit, kept, to_us(item.run_at))
        if moved.state is not moved.was:
            moves = (replace(moved, followed=()), *moved.followed)
    (seen,) = yield from whole(unit, [kept])
    if item.payload is not None:
        seen = replace(seen, payload_body=item.payload)
    return Edited(seen, moves)


def set_priority(unit: Unit, kept: Kept, priority: Priority) -> Plan[None]:
    """Set the priority of a job by hand; jobs that inherited the old one follow (S1-37)."""
    kept.document.priority = int(priority)
    if kept.document.waits is not None:
        kept.document.waits = [*kept.document.waits[:4], None]
    if kept.document.concurrency_key is not None:
        yield from admit(unit, [scope_of(kept)])
    changed = [kept]
    while changed:
        families = yield from unit.children(changed)
        changed = []
        for seqs in families:
            children = yield from unit.jobs(seqs)
            for child in children.values():
                waits = child.document.waits
                if child.state is not State.PENDING or waits is None or not waits[1]:
                    continue
                own = waits[4]
                parents = yield from unit.jobs(child.document.parents or ())
                if own is None or not parents:
                    continue
                urgent = min(own, *(each.document.priority for each in parents.values()))
                if urgent != child.document.priority:
                    child.document.priority = urgent
                    changed.append(child)


def hasten(unit: Unit, kept: Kept, request: RetryRequest) -> Plan[RetryReply]:
    """Make a job that waits for its time run now, or after another delay (C45)."""
    if kept.state not in HASTENED:
        return Conflict(request.job_id, kept.state)
    due = unit.now + seconds_to_us(request.delay)
    document = kept.document
    if due >= document.expires_at:
        return TooLate(request.job_id, from_us(document.expires_at))
    if request.reset_attempts:
        document.attempt, document.max_attempts = 0, kept.policy.max_attempts
    if request.priority is not None:
        yield from set_priority(unit, kept, request.priority)
    return (yield from _reschedule(unit, kept, due))


def _reschedule(unit: Unit, kept: Kept, due: int) -> Plan[Moved]:
    """Set the due time of a waiting job; return its move, and the jobs admitted to its slot."""
    was, document = kept.state, kept.document
    found = rescheduled(
        was,
        is_held=kept.is_held,
        has_key=document.concurrency_key is not None,
        due=due,
        now=unit.now,
    )
    if found is None:
        return Moved(kept.id, kept.type, was, was)
    state, document.run_at = found
    moved = Moved(kept.id, kept.type, state, was)
    if state is was:
        return moved
    kept.set_state(state)
    document.updated_at = unit.now
    if state is State.SCHEDULED:
        document.scheduled_at = unit.now
    admitted = yield from admit(unit, [scope_of(kept)])
    return with_admitted([moved], admitted)[0]
