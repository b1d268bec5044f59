"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.dependencies import Waits
from fencepost.core.dependents import Entry, Parent, gather
from fencepost.core.limits import DEPENDENCY_COUNT_MAX
from fencepost.core.priority import Priority
from fencepost.errors import DependencyBreadthError
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres import graphs
from fencepost.store.postgres.admission import Touched, admit
from fencepost.store.postgres.catalog import Env, Numbers
from fencepost.store.postgres.control import MOVE_PENDING, SET_LANE
from fencepost.store.postgres.dependents import count_down, end_waiting
from fencepost.store.postgres.parents import hold
from fencepost.store.postgres.settling import with_states
from fencepost.store.postgres.tokens import NOWHERE, read_token
from fencepost.store.replies import LeaseLost, Moved, Spawned, SpawnReply
from fencepost.store.requests import Spawn
from fencepost.store.states import MODES

# Locked as by a settlement: until this transaction is over the job does not end.
HOLD_LEASE = """
select job.flow from fencepost.job, fencepost.hold_leases(
  coalesce(%s::timestamptz, clock_timestamp()), %s::uuid, array[%s::bigint])
where job.seq = %s
"""
GATHERERS = """
select pending.seq, pending.lane, pending.mode, pending.missing, job.depth, array(
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
# Who of those waits for p_seq, by however long a way: to wait for them would be a cycle.
BEHIND = """
with recursive way(first, seq) as (
  select x, x from unnest(%s::bigint[]) as x
  union
  select way.first, dependency.parent
  from way join fencepost.dependency on dependency.child = way.seq
)
select first from way where seq = %s
"""
SET_MISSING = "update fencepost.pending set missing = %s where seq = %s"
SET_DEPTH = "update fencepost.job set depth = %s where seq = %s"


class Gatherer(NamedTuple):
    """A job that waits for whatever those that it waits for spawn."""

    seq: int
    lane: int
    mode: int
    missing: int
    depth: int
    parents: list[int]

    @property
    def waits(self) -> Waits:
        return Waits(MODES[self.mode], self.missing, self.depth, gathers=True)


def spawn(env: Env, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what running jobs spawn, and have those wait for it that gather."""
    urgent = [job for each in spawns for job in graphs.inherited(each.jobs)]
    numbers = yield from env.catalog.number(graphs.with_delivery(urgent))
    replies: list[SpawnReply] = []
    for each in spawns:
        reply = yield from _spawn(env, each, numbers)
        replies += [reply]
    return (yield from with_states(replies))


def _spawn(env: Env, spawn: Spawn, numbers: Numbers) -> Plan[SpawnReply]:
    fence = read_token(spawn.token, spawn.job_id)
    leased: Sequence[Row] = ()
    if fence is not NOWHERE:
        leased = yield Statement(HOLD_LEASE, (env.now, fence.secret, fence.seq, fence.seq))
    if not leased:
        return LeaseLost(spawn.job_id)
    ((flow,),) = leased
    joined = [replace(job, flow=flow) for job in spawn.jobs]
    replies = yield from graphs.enqueue(env, joined, numbers, atomic=True)
    gatherers = [Gatherer(*row) for row in (yield Statement(GATHERERS, (fence.seq,)))]
    followed: list[Moved] = []
    if gatherers:
        held = yield from hold(reply.job_id for reply in replies)
        spawned = dict(held[reply.job_id] for reply in replies)
        touched = Touched()
        for gatherer in gatherers:
            followed += yield from _gather(env, gatherer, spawned, touched)
        followed += yield from admit(env, touched)
    return Spawned(spawn.job_id.lower(), tuple(replies), tuple(followed))


def _gather(
    env: Env, gatherer: Gatherer, spawned: dict[int, Parent], touched: Touched
) -> Plan[Sequence[Moved]]:
    """Have *gatherer* wait for more jobs, but for those that it does already, or that wait for it.

    Return what became of it, and of those behind it, if that is the end of its waiting.
    """
    behind = yield from _behind(gatherer, spawned)
    new = {seq: each for seq, each in spawned.items() if seq not in behind}
    if not new:
        return ()
    count = len(gatherer.parents) + len(new)
    if count > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(count)
    lane = (yield from env.catalog.lanes([gatherer.lane]))[gatherer.lane]
    entry = gather(gatherer.waits, Priority(lane.priority), list(new.values()))
    yield Statement(LINK, (gatherer.seq, len(gatherer.parents), list(new)))
    if entry.waits.depth > gatherer.depth:
        yield Statement(SET_DEPTH, (entry.waits.depth, gatherer.seq))
    if entry.priority < lane.priority:  # it is as urgent as what it waits for (S1-37)
        wanted = yield from env.catalog.lane_number(lane.queue, lane.type, entry.priority)
        yield Statement(MOVE_PENDING, (gatherer.seq, wanted))
        yield Statement(SET_LANE, (wanted, gatherer.seq))
    return (yield from _go_on(env, gatherer, entry, touched))


def _behind(gatherer: Gatherer, spawned: dict[int, Parent]) -> Plan[set[int]]:
    """Return for whom of *spawned* the gatherer waits already, or cannot (S1-65)."""
    known = {*gatherer.parents, gatherer.seq}
    asked = [seq for seq, each in spawned.items() if each.depth > 1 and seq not in known]
    rows = (yield Statement(BEHIND, (asked, gatherer.seq))) if asked else ()
    return known | {seq for (seq,) in rows}


def _go_on(env: Env, gatherer: Gatherer, entry: Entry, touched: Touched) -> Plan[Sequence[Moved]]:
    """Have *gatherer* wait on, let it go, or end it: what was spawned may have ended already."""
    if entry.decision is not None:
        return (yield from end_waiting(env, {gatherer.seq: entry.decision}))
    if entry.waits.missing:
        yield Statement(SET_MISSING, (entry.waits.missing, gatherer.seq))
        return ()
    return (yield from count_down(env, {gatherer.seq: gatherer.missing}, touched))
