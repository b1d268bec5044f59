"""What operators change about a job that waits: its edits, and when it is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.core.job.edits import HASTENED, WAITING, rescheduled
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.values.instants import from_us, seconds_to_us, to_us
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import Edit, Edited, EditReply, RetryReply, RetryRequest
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.replies import Conflict, Moved, NotFound, TooLate
from fencepost.store.memory.jobs.record import Changes, Record
from fencepost.store.memory.jobs.rows import job_of
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def edit(world: MemoryWorld, edits: Sequence[Edit]) -> list[EditReply]:
    """Change what a user may change about jobs."""
    now = world.now
    replies = [edit_one(world.jobs, each, now) for each in edits]
    world.journal.announce(Topic.READY)  # a due time may have come nearer
    return replies


def edit_one(jobs: JobTable, edit: Edit, now: int) -> EditReply:
    """Change tags at any time, all else while the job waits (S1-106, S1-107, C46)."""
    record = jobs.get(edit.job_id)
    if record is None:
        return NotFound(edit.job_id)
    if edit.is_for_waiting and record.state not in WAITING:
        return Conflict(record.id, record.state)
    if edit.run_at is not None and max(to_us(edit.run_at), now) >= record.expires_at:
        return TooLate(record.id, from_us(record.expires_at))
    was = record.state
    changes = _content(edit)
    if edit.run_at is not None:
        changes |= _due(record, to_us(edit.run_at), now)
    jobs.change(record, **changes)
    if edit.priority is not None:
        set_priority(jobs, record, edit.priority)
    if record.state is was:
        jobs.slots.forget_touches()  # nobody left a slot, whoever is first now
        return Edited(job_of(record, now))
    [moved] = with_admitted([Moved(record.id, record.type, record.state, was)], admit(jobs, now))
    moves = (replace(moved, followed=()), *moved.followed)
    return Edited(job_of(record, now), moves)


def _content(edit: Edit) -> Changes:
    changes: Changes = {}
    if edit.tags is not None:
        changes["tags"] = dict(edit.tags)
    if edit.payload is not None:
        changes["payload"] = edit.payload
    if edit.correlation_id is not None:
        changes["correlation_id"] = edit.correlation_id or None
    if edit.callback_url is not None:
        changes["callback_url"] = edit.callback_url or None
    return changes


def _due(record: Record, due: int, now: int) -> Changes:
    """Return what changes if a waiting job is to be due at *due*."""
    has_key = record.concurrency_key is not None
    found = rescheduled(record.state, is_held=record.is_held, has_key=has_key, due=due, now=now)
    if found is None:
        return {}
    state, run_at = found
    changes: Changes = {"run_at": run_at}
    if state is not record.state:
        changes |= {"state": state, "updated_at": now}
    if state is State.SCHEDULED:
        changes["scheduled_at"] = now
    return changes


def set_priority(jobs: JobTable, record: Record, priority: Priority) -> None:
    """Give a job another priority, by hand; those that inherited its own follow (S1-37)."""
    changes: Changes = {"priority": priority}
    if record.waits is not None:
        changes["waits"] = replace(record.waits, own_priority=None)
    jobs.change(record, **changes)
    changed = [record]
    while changed:
        for child in jobs.children(changed.pop()):
            if child.waits is None or not child.is_waiting_for_others:
                continue
            inherited = child.waits.inherited(parent.priority for parent in jobs.parents(child))
            if inherited is not None and inherited is not child.priority:
                jobs.change(child, priority=inherited)
                changed.append(child)


def hasten(jobs: JobTable, record: Record, request: RetryRequest, now: int) -> RetryReply:
    """Have a live job that waits for its time run now, or after another delay (C45)."""
    if record.state not in HASTENED:
        return Conflict(record.id, record.state)
    due = now + seconds_to_us(request.delay)
    if due >= record.expires_at:
        return TooLate(record.id, from_us(record.expires_at))
    was = record.state
    changes = _due(record, due, now)
    if request.reset_attempts:
        changes |= {"attempt": 0, "max_attempts": record.policy.max_attempts}
    jobs.change(record, **changes)
    if request.priority is not None:
        set_priority(jobs, record, request.priority)
    moved = Moved(record.id, record.type, record.state, was)
    return with_admitted([moved], admit(jobs, now))[0]
