"""What a worker may do under a lease: extend it, save under it, settle it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.core.job.outcome import Settlement
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Extended,
    HeartbeatReply,
    Save,
    Saved,
    SaveReply,
    Settled,
    SettleReply,
)
from fencepost.store.interface.replies import LeaseLost
from fencepost.store.memory.jobs.finish import apply
from fencepost.store.memory.jobs.record import Changes, Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def heartbeat(world: MemoryWorld, beats: Sequence[Beat]) -> list[HeartbeatReply]:
    """Extend leases that are still valid."""
    now = world.now
    return [extend(world.jobs, beat, now) for beat in beats]


def extend(jobs: JobTable, beat: Beat, now: int) -> HeartbeatReply:
    """Extend a valid lease; never shorten or revive one, nor pass its deadline (C10, C18, C44)."""
    record = jobs.get(beat.job_id)
    if record is None or not record.is_leased_by(beat.token, now):
        return lost(record, beat.job_id)
    assert record.lease_expires_at is not None and record.lease_ttl is not None
    assert record.deadline is not None
    lease_ttl = record.lease_ttl if beat.lease_ttl is None else beat.lease_ttl
    wanted = min(now + seconds_to_us(lease_ttl), record.deadline)
    expires_at = max(record.lease_expires_at, wanted)
    jobs.change(record, lease_expires_at=expires_at)
    return Extended(record.id, from_us(expires_at))


def settle(world: MemoryWorld, settlements: Sequence[Settlement]) -> list[SettleReply]:
    """Record decisions under valid leases."""
    now = world.now
    replies = [settle_one(world.jobs, settlement, now) for settlement in settlements]
    world.announce_room()
    return with_admitted(replies, admit(world.jobs, now))


def settle_one(jobs: JobTable, settlement: Settlement, now: int) -> SettleReply:
    """Record a decision under a valid lease; a repeat of the last one is told so."""
    record = jobs.get(settlement.job_id)
    if record is None:
        return LeaseLost(settlement.job_id)
    if record.is_leased_by(settlement.token, now):
        token = settlement.token
        followed = apply(jobs, record, settlement.decision, now=now, settled_token=token)
        return Settled(record.id, record.type, record.state, followed)
    if record.settled_token is not None and record.settled_token == settlement.token:
        return AlreadySettled(record.id, record.state)
    return lost(record, settlement.job_id)


def save(world: MemoryWorld, saves: Sequence[Save]) -> list[SaveReply]:
    """Keep checkpoints and progress under valid leases."""
    now = world.now
    return [save_one(world.jobs, each, now) for each in saves]


def save_one(jobs: JobTable, save: Save, now: int) -> SaveReply:
    """Keep what a handler wants kept, under a valid lease."""
    record = jobs.get(save.job_id)
    if record is None or not record.is_leased_by(save.token, now):
        return lost(record, save.job_id)
    changes: Changes = {}
    if save.checkpoint is not None:
        changes["checkpoint"] = save.checkpoint
    if save.progress is not None:
        changes["progress"] = save.progress
    jobs.change(record, **changes)
    return Saved(record.id)


def lost(record: Record | None, job_id: str) -> LeaseLost:
    """Return what a worker is told whose token does not own the job."""
    return LeaseLost(job_id) if record is None else LeaseLost(record.id, record.state)
