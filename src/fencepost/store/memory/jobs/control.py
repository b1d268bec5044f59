"""What an operator does to single jobs, and what retention does to old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fencepost.core.bounds import LANE_IDLE, PRUNE_SCAN
from fencepost.core.job.lifecycle import State
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import CancelReply, Discarded, DiscardReply
from fencepost.store.interface.replies import Conflict, NotFound
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.memory.jobs import finish as moves
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def cancel(world: MemoryWorld, job_ids: Sequence[str]) -> list[CancelReply]:
    """Cancel jobs that have not ended."""
    jobs, now = world.jobs, world.now
    found = [jobs.get(job_id) for job_id in job_ids]
    live = {r.id: r for r in found if r is not None and not r.state.is_terminal}
    ended = moves.end_each(list(live.values()), lambda record: moves.cancel(jobs, record, now))
    moved: dict[str, CancelReply] = {each.job_id: each for each in ended}
    replies: list[CancelReply] = []
    for job_id, record in zip(job_ids, found, strict=True):
        if record is None:
            replies.append(NotFound(job_id))
        else:
            replies.append(moved.pop(record.id, Conflict(record.id, record.state)))
    world.announce_room()
    return with_admitted(replies, admit(jobs, now))


def discard(world: MemoryWorld, job_ids: Sequence[str]) -> list[DiscardReply]:
    """Take dead letters off the list; their jobs stay."""
    return [_discard(world.jobs, job_id) for job_id in job_ids]


def _discard(jobs: JobTable, job_id: str) -> DiscardReply:
    record = jobs.get(job_id)
    if record is None or record.dead_number is None:
        return NotFound(job_id)
    jobs.change(record, dead_number=None)
    return Discarded(record.id)


def prune(world: MemoryWorld, request: PruneRequest) -> Pruned:
    """Delete terminal jobs that were kept long enough; look at a bounded number of jobs."""
    jobs, now = world.jobs, world.now
    if request.after == 0:
        jobs.pairs.prune(now - seconds_to_us(LANE_IDLE), now)
    position, seen = request.after, 0
    doomed: list[Record] = []
    reached: int | None = None
    for record in jobs.roll.after(request.after):
        if seen == PRUNE_SCAN or len(doomed) >= request.limit:
            reached = position
            break
        position, seen = record.seq, seen + 1
        keep = request.keep_by_type.get(record.type, request.keep)
        if _is_old(record, keep, now) and not _is_needed(jobs, record):
            doomed.append(record)
    for record in doomed:
        jobs.remove(record)
    return Pruned(len(doomed), reached)


def _is_needed(jobs: JobTable, record: Record) -> bool:
    """Tell whether somebody who has not ended may ask for its result."""
    return any(not child.state.is_terminal for child in jobs.children(record))


def _is_old(record: Record, keep: Mapping[State, float], now: int) -> bool:
    if not record.state.is_terminal or record.state not in keep:
        return False
    assert record.completed_at is not None
    if record.completed_at + seconds_to_us(keep[record.state]) > now:
        return False
    # The job is what a later submission under the same key is answered with.
    return record.key_ends_at is None or record.key_ends_at <= now
