"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.dependencies import check_depth
from fencepost.core.limits import DEPENDENCY_COUNT_MAX
from fencepost.errors import DependencyBreadthError
from fencepost.store.memory.jobs import Jobs
from fencepost.store.memory.leases import lost
from fencepost.store.memory.record import Record
from fencepost.store.memory.submission import as_parent, enqueue
from fencepost.store.replies import Spawned, SpawnReply
from fencepost.store.requests import Spawn


def spawn(jobs: Jobs, clock: Clock, spawn: Spawn, now: int) -> SpawnReply:
    """Store what a running job spawns, and have those wait for it that gather."""
    record = jobs.get(spawn.job_id)
    if record is None or not record.is_leased_by(spawn.token, now):
        return lost(record, spawn.job_id)
    new = [replace(each, flow=record.flow) for each in spawn.jobs]
    replies = enqueue(jobs, clock, new, atomic=True, now=now)
    for gatherer in jobs.children(record):
        if gatherer.is_waiting_for_others and gatherer.waits and gatherer.waits.gathers:
            for reply in replies:
                spawned = jobs.get(reply.job_id)
                assert spawned is not None
                _gather(jobs, gatherer, spawned)
    return Spawned(record.id, tuple(replies))


def _gather(jobs: Jobs, gatherer: Record, spawned: Record) -> None:
    """Have *gatherer* wait for one job more, unless it does already."""
    known = jobs.parents(gatherer)
    waits = gatherer.waits
    if spawned in known or spawned is gatherer or waits is None:
        return
    if len(known) >= DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(len(known) + 1)
    parent = as_parent(spawned)
    jobs.link(gatherer, spawned)
    jobs.change(
        gatherer,
        priority=min(gatherer.priority, parent.priority),
        waits=replace(
            waits,
            depth=check_depth(max(waits.depth, parent.depth + 1)),
            missing=waits.missing + (not parent.state.is_terminal),
        ),
    )
