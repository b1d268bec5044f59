"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.bounds import DEPENDENCY_COUNT_MAX
from fencepost.core.flows.dependents import gather
from fencepost.errors import DependencyBreadthError
from fencepost.store.interface.queue import Spawn, Spawned, SpawnReply
from fencepost.store.interface.replies import Moved
from fencepost.store.memory.jobs.enqueue import accept, as_parent
from fencepost.store.memory.jobs.finish import end_with, let_go
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.settle import lost
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def spawn(world: MemoryWorld, spawns: Sequence[Spawn]) -> list[SpawnReply]:
    """Store jobs under valid leases of the jobs that spawn them."""
    now = world.now
    return [spawn_one(world.jobs, world.clock, each, now) for each in spawns]


def spawn_one(jobs: JobTable, clock: Clock, spawn: Spawn, now: int) -> SpawnReply:
    """Store what a running job spawns, and have those wait for it that gather."""
    record = jobs.get(spawn.job_id)
    if record is None or not record.is_leased_by(spawn.token, now):
        return lost(record, spawn.job_id)
    new = [replace(each, flow=record.flow) for each in spawn.jobs]
    replies = accept(jobs, clock, new, atomic=True, now=now)
    spawned = [jobs.get(job_id) for job_id in dict.fromkeys(each.job_id for each in replies)]
    followed: list[Moved] = []
    for gatherer in jobs.children(record):
        if gatherer.is_waiting_for_others and gatherer.waits and gatherer.waits.gathers:
            followed += _gather(jobs, gatherer, [each for each in spawned if each], now)
    followed += admit(jobs, now)
    return Spawned(record.id, tuple(replies), tuple(followed))


def _gather(jobs: JobTable, gatherer: Record, spawned: Sequence[Record], now: int) -> list[Moved]:
    """Have *gatherer* wait for more jobs, but for those that it does already, or that wait for it.

    Return what became of it, and of those behind it, if that is the end of its waiting.
    """
    known = jobs.parents(gatherer)
    new = [each for each in spawned if each not in known and not _waits_for(jobs, each, gatherer)]
    if not new or gatherer.waits is None:
        return []
    if len(known) + len(new) > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(len(known) + len(new))
    entry = gather(gatherer.waits, gatherer.priority, [as_parent(each) for each in new])
    for each in new:
        jobs.link(gatherer, each)
    jobs.change(gatherer, priority=entry.priority, waits=entry.waits)
    if entry.decision is not None:
        moved = end_with(jobs, gatherer, entry.decision, now)
        return [replace(moved, followed=()), *moved.followed]
    return [] if entry.waits.missing else list(let_go(jobs, gatherer, now))


def _waits_for(jobs: JobTable, record: Record, other: Record) -> bool:
    """Tell whether *record* is *other* or waits for it, by however long a way."""
    seen: set[int] = set()
    rest = [record]
    while rest:
        each = rest.pop()
        if each is other:
            return True
        if each.seq not in seen:
            seen.add(each.seq)
            rest += jobs.parents(each)
    return False
