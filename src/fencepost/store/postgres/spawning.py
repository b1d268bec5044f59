"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.dependencies import check_depth
from fencepost.core.dependents import Parent
from fencepost.core.job import NewJob
from fencepost.core.limits import DEPENDENCY_COUNT_MAX
from fencepost.core.priority import Priority
from fencepost.errors import DependencyBreadthError
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres import graphs
from fencepost.store.postgres.catalog import Env, Numbers
from fencepost.store.postgres.control import MOVE_PENDING, SET_LANE
from fencepost.store.postgres.parents import hold
from fencepost.store.postgres.settling import with_states
from fencepost.store.postgres.tokens import NOWHERE, read_token
from fencepost.store.replies import LeaseLost, Spawned, SpawnReply
from fencepost.store.requests import Spawn

# Locked as by a settlement: until this transaction is over the job does not end.
HOLD_LEASE = """
select job.flow from fencepost.lease join fencepost.job on job.seq = %s::bigint
where lease.secret = %s::uuid and job.seq = any (lease.seqs)
  and lease.expires_at > coalesce(%s::timestamptz, clock_timestamp())
for update of lease
"""
GATHERERS = """
select pending.seq, pending.lane, job.depth, array(
  select parent from fencepost.dependency where child = pending.seq)
from fencepost.dependency join fencepost.pending on pending.seq = dependency.child
join fencepost.job on job.seq = pending.seq
where dependency.parent = %s and job.gathers and pending.slot is null
order by pending.seq for update of pending
"""
LINK = """
insert into fencepost.dependency(parent, child, place)
select x.parent, %s, %s + x.place
from unnest(%s::bigint[]) with ordinality as x(parent, place)
"""
WAIT_FOR_MORE = "update fencepost.pending set missing = missing + %s where seq = %s"
SET_DEPTH = "update fencepost.job set depth = %s where seq = %s"


class Gatherer(NamedTuple):
    """A job that waits for whatever those that it waits for spawn."""

    seq: int
    lane: int
    depth: int
    parents: list[int]


def spawn(env: Env, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what running jobs spawn, and have those wait for it that gather."""
    urgent = [graphs.inherited(each.jobs) for each in spawns]
    numbers = yield from env.catalog.number([job for jobs in urgent for job in jobs])
    replies: list[SpawnReply] = []
    for each, jobs in zip(spawns, urgent, strict=True):
        reply = yield from _spawn(env, each, jobs, numbers)
        replies += [reply]
    return (yield from with_states(replies))


def _spawn(env: Env, spawn: Spawn, jobs: Sequence[NewJob], numbers: Numbers) -> Plan[SpawnReply]:
    fence = read_token(spawn.token, spawn.job_id)
    held = []
    if fence is not NOWHERE:
        held = yield Statement(HOLD_LEASE, (fence.seq, fence.secret, env.now))
    if not held:
        return LeaseLost(spawn.job_id)
    ((flow,),) = held
    joined = [replace(job, flow=flow) for job in jobs]
    replies = yield from graphs.enqueue(env, joined, numbers, atomic=True)
    gatherers = [Gatherer(*row) for row in (yield Statement(GATHERERS, (fence.seq,)))]
    if gatherers:
        spawned = yield from hold(reply.job_id for reply in replies)
        for gatherer in gatherers:
            yield from _gather(env, gatherer, list(spawned.values()))
    return Spawned(spawn.job_id.lower(), tuple(replies))


def _gather(env: Env, gatherer: Gatherer, spawned: Sequence[tuple[int, Parent]]) -> Plan[None]:
    """Have *gatherer* wait for what was spawned, unless it does already."""
    own = {*gatherer.parents, gatherer.seq}
    new = {seq: parent for seq, parent in spawned if seq not in own}
    if not new:
        return
    count = len(gatherer.parents) + len(new)
    if count > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(count)
    depth = check_depth(max(gatherer.depth, *(parent.depth + 1 for parent in new.values())))
    yield Statement(LINK, (gatherer.seq, len(gatherer.parents), list(new)))
    missing = sum(not parent.state.is_terminal for parent in new.values())
    if missing:
        yield Statement(WAIT_FOR_MORE, (missing, gatherer.seq))
    if depth > gatherer.depth:
        yield Statement(SET_DEPTH, (depth, gatherer.seq))
    yield from _hurry(env, gatherer, min(parent.priority for parent in new.values()))


def _hurry(env: Env, gatherer: Gatherer, priority: Priority) -> Plan[None]:
    """Make *gatherer* as urgent as what it waits for (S1-37)."""
    lane = (yield from env.catalog.lanes([gatherer.lane]))[gatherer.lane]
    if priority < lane.priority:
        wanted = yield from env.catalog.lane_number(lane.queue, lane.type, priority)
        yield Statement(MOVE_PENDING, (gatherer.seq, wanted))
        yield Statement(SET_LANE, (wanted, gatherer.seq))
