"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.bounds import DEPENDENCY_COUNT_MAX
from fencepost.core.flows.dependencies import Waits
from fencepost.core.flows.dependents import Entry, Parent, gather
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import wanted_ids
from fencepost.errors import DependencyBreadthError
from fencepost.store.interface.queue import Spawn, Spawned, SpawnReply
from fencepost.store.interface.replies import LeaseLost, Moved
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.transaction import RETREAT, SHELTER
from fencepost.store.postgres.flows import enqueue as graphs
from fencepost.store.postgres.flows.dependents import count_down, end_waiting
from fencepost.store.postgres.flows.parents import COLUMNS, Held, hold, named
from fencepost.store.postgres.jobs.catalog import Env, Numbers
from fencepost.store.postgres.jobs.edit import MOVE_PENDING, SET_LANE
from fencepost.store.postgres.jobs.enqueue import check_times
from fencepost.store.postgres.jobs.settle import with_states
from fencepost.store.postgres.jobs.tokens import NOWHERE, Fence, read_token
from fencepost.store.postgres.limits.concurrency import Touched, admit
from fencepost.store.sql.codes import MODES

FLOW = """
select job.flow from fencepost.job join fencepost.lease on job.seq = any (lease.seqs)
where job.seq = %s::bigint and lease.secret = %s::uuid
  and lease.expires_at > coalesce(%s::timestamptz, clock_timestamp())
"""
# Everything that is in the way of others, at once and in the one order: what is waited for, what
# keys have returned, the spawning job itself (which does not end before this is over), and who
# gathers what it spawns.
HOLD = f"""
select {COLUMNS} from fencepost.hold_parents(
  array(select seq from fencepost.job where id = any (%s::uuid[]) or seq = %s::bigint order by seq),
  true,
  array(
    select pending.seq from fencepost.dependency
    join fencepost.pending on pending.seq = dependency.child
    join fencepost.job on job.seq = pending.seq
    where dependency.parent = %s::bigint and job.gathers and pending.slot is null
    order by pending.seq))
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


class _LostError(Exception):
    """The spawning job has lost its lease, after keys were taken for what it spawns."""


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
    leased = yield from _leased(env, fence)
    if not leased:
        return LeaseLost(spawn.job_id)
    ((flow,),) = leased
    joined = [replace(job, flow=flow) for job in spawn.jobs]
    yield from check_times(env, joined)
    yield SHELTER
    try:
        holding = partial(_hold, env, fence)
        replies = yield from graphs.enqueue(env, joined, numbers, atomic=True, holding=holding)
    except _LostError:
        yield RETREAT
        return LeaseLost(spawn.job_id)
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


def _leased(env: Env, fence: Fence) -> Plan[Sequence[Row]]:
    """Return the flow of a job in a row, if it is held."""
    if fence is NOWHERE:
        return ()
    return (yield Statement(FLOW, (fence.seq, fence.secret, env.now)))


def _hold(env: Env, fence: Fence, job_ids: Sequence[str]) -> Plan[Held]:
    """Hold jobs, the one that spawns and who gathers; raise _LostError if it has lost its lease."""
    wanted = list(wanted_ids(job_ids).values())
    held = named((yield Statement(HOLD, (wanted, fence.seq, fence.seq))), job_ids)
    if not (yield from _leased(env, fence)):
        raise _LostError
    return held


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
