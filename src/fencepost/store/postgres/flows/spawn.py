"""Jobs that a running job spawns, under its lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Waits, check_breadth, check_places
from fencepost.core.flows.dependents import Entry, Parent, gather
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import wanted_ids
from fencepost.store.interface.queue import LeaseLost, Moved, Spawn, Spawned, SpawnReply
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.transaction import RETREAT, SHELTER
from fencepost.store.postgres.flows import enqueue as graphs
from fencepost.store.postgres.flows.dependents import (
    COLUMNS,
    Held,
    count_down,
    end_waiting,
    hold,
    named,
)
from fencepost.store.postgres.jobs.catalog import Env, JobNumbers
from fencepost.store.postgres.jobs.edit import MOVE_PENDING, SET_LANE
from fencepost.store.postgres.jobs.enqueue import check_times
from fencepost.store.postgres.jobs.lease import NOWHERE, Fence, read_token, with_states
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit
from fencepost.store.sql.codec import MODES

FLOW = """
select j.flow from fencepost.submissions j join fencepost.leases on j.seq = any (leases.seqs)
where j.seq = %s::bigint and leases.lease_token = %s::uuid
  and leases.expires_at > coalesce(%s::timestamptz, clock_timestamp())
"""
# Everything that other transactions may want, at once and in the one order: dependencies, jobs that
# hold keys, the spawning job itself (which cannot end before this transaction does), and jobs that
# gather what it spawns.
HOLD = f"""
select {COLUMNS} from fencepost.hold_parents(
  array(select seq from fencepost.submissions j
    where id = any (%s::uuid[]) or seq = %s::bigint order by seq),
  true,
  array(
    select pending.seq from fencepost.dependencies
    join fencepost.pending on pending.seq = dependencies.child
    join fencepost.submissions j on j.seq = pending.seq
    where dependencies.parent = %s::bigint and j.gathers and pending.slot is null
    order by pending.seq))
"""
GATHERERS = """
select pending.seq, pending.lane, pending.mode, pending.missing, submissions.depth, array(
  select parent from fencepost.dependencies where child = pending.seq)
from fencepost.dependencies join fencepost.pending on pending.seq = dependencies.child
join fencepost.submissions on submissions.seq = pending.seq
where dependencies.parent = %s and submissions.gathers and pending.slot is null
order by pending.seq for update of pending
"""
LINK = """
insert into fencepost.dependencies(parent, child, place)
select x.parent, %s, %s + x.place
from unnest(%s::bigint[]) with ordinality as x(parent, place)
"""
# Which of those depend on the job, directly or not: to wait for them would be a cycle.
BEHIND = """
with recursive way(first, seq) as (
  select x, x from unnest(%s::bigint[]) as x
  union
  select way.first, dependencies.parent
  from way join fencepost.dependencies on dependencies.child = way.seq
)
select first from way where seq = %s
"""
SET_MISSING = "update fencepost.pending set missing = %s where seq = %s"
SET_DEPTH = "update fencepost.submissions set depth = %s where seq = %s"


class _LostError(Exception):
    """The spawning job has lost its lease, after keys were taken for what it spawns."""


class Gatherer(NamedTuple):
    """A job that also waits for what its dependencies spawn."""

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
    """Store what running jobs spawn; jobs that gather also wait for it."""
    urgent = [job for each in spawns for job in graphs.inherited(each.jobs)]
    numbers = yield from env.catalog.number(graphs.with_delivery(urgent))
    replies: list[SpawnReply] = []
    for each in spawns:
        reply = yield from _spawn(env, each, numbers)
        replies += [reply]
    return (yield from with_states(replies))


def _spawn(env: Env, spawn: Spawn, numbers: JobNumbers) -> Plan[SpawnReply]:
    fence = read_token(spawn.token, spawn.job_id)
    leased = yield from _leased(env, fence)
    if not leased:
        return LeaseLost(spawn.job_id)
    ((flow,),) = leased
    joined = [replace(job, flow=flow) for job in spawn.jobs]
    check_places(job.after for job in joined)
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
        freed = FreedSlots()
        for gatherer in gatherers:
            followed += yield from _gather(env, gatherer, spawned, freed)
        followed += yield from admit(env, freed)
    return Spawned(spawn.job_id.lower(), tuple(replies), tuple(followed))


def _leased(env: Env, fence: Fence) -> Plan[Sequence[Row]]:
    """Return the flow of a job in a row, if its lease is valid."""
    if fence is NOWHERE:
        return ()
    return (yield Statement(FLOW, (fence.seq, fence.lease_token, env.now)))


def _hold(env: Env, fence: Fence, job_ids: Sequence[str]) -> Plan[Held]:
    """Lock jobs, the spawning job and its gatherers; raise _LostError if its lease is lost."""
    wanted = list(wanted_ids(job_ids).values())
    held = named((yield Statement(HOLD, (wanted, fence.seq, fence.seq))), job_ids)
    if not (yield from _leased(env, fence)):
        raise _LostError
    return held


def _gather(
    env: Env, gatherer: Gatherer, spawned: dict[int, Parent], freed: FreedSlots
) -> Plan[Sequence[Moved]]:
    """Make *gatherer* wait for *spawned*, except for jobs that it waits for or that wait for it.

    Return the jobs that moved, if it stops waiting.
    """
    behind = yield from _behind(gatherer, spawned)
    new = {seq: each for seq, each in spawned.items() if seq not in behind}
    if not new:
        return ()
    check_breadth(len(gatherer.parents) + len(new))
    lane = (yield from env.catalog.lanes([gatherer.lane]))[gatherer.lane]
    entry = gather(gatherer.waits, Priority(lane.priority), list(new.values()))
    yield Statement(LINK, (gatherer.seq, len(gatherer.parents), list(new)))
    if entry.waits.depth > gatherer.depth:
        yield Statement(SET_DEPTH, (entry.waits.depth, gatherer.seq))
    if entry.priority < lane.priority:  # it is as urgent as what it waits for (S1-37)
        wanted = yield from env.catalog.lane_number(lane.queue, lane.type, entry.priority)
        yield Statement(MOVE_PENDING, (gatherer.seq, wanted))
        yield Statement(SET_LANE, (wanted, gatherer.seq))
    return (yield from _go_on(env, gatherer, entry, freed))


def _behind(gatherer: Gatherer, spawned: dict[int, Parent]) -> Plan[set[int]]:
    """Return which of *spawned* the gatherer waits for already, or cannot wait for (S1-65)."""
    known = {*gatherer.parents, gatherer.seq}
    asked = [seq for seq, each in spawned.items() if each.depth > 1 and seq not in known]
    rows = (yield Statement(BEHIND, (asked, gatherer.seq))) if asked else ()
    return known | {seq for (seq,) in rows}


def _go_on(env: Env, gatherer: Gatherer, entry: Entry, freed: FreedSlots) -> Plan[Sequence[Moved]]:
    """Let *gatherer* wait on, release it, or end it: spawned jobs may have ended already."""
    if entry.decision is not None:
        return (yield from end_waiting(env, {gatherer.seq: entry.decision}))
    if entry.waits.missing:
        yield Statement(SET_MISSING, (entry.waits.missing, gatherer.seq))
        return ()
    return (yield from count_down(env, {gatherer.seq: gatherer.missing}, freed))
