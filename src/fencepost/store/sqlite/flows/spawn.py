"""New jobs that a running job spawns under its lease, and the jobs that gather them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.flows.dependencies import Waits, check_breadth
from fencepost.core.flows.dependents import Entry, gather
from fencepost.core.job.outcome import Decision
from fencepost.store.interface.queue import LeaseLost, Moved, Spawn, Spawned, SpawnReply
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import MODES, PENDING
from fencepost.store.sql.endings import Stored
from fencepost.store.sqlite.flows.dependents import end_waiting, link
from fencepost.store.sqlite.flows.enqueue import accept
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.rows import PRIORITIES, numbers_json, values
from fencepost.store.sqlite.jobs.settle import leased, locate, with_states

FLOW = "select flow from jobs where seq = ?"
# The gathering jobs that wait for one job, with what they wait for already.
GATHERERS = f"""
select jobs.seq, jobs.priority, jobs.mode, jobs.missing, jobs.depth, known.place, known.parent
from jobs join dependencies as known on known.child = jobs.seq
where jobs.state = {PENDING} and jobs.missing > 0 and jobs.gathers = 1
  and jobs.seq in (select child from dependencies where parent = ?)
order by jobs.seq, known.place
"""
# All ancestors of some jobs: a gathering job must not wait for its own dependents (a cycle).
WAYS = """
with recursive way(first, seq) as (
  select value, value from json_each(?)
  union
  select way.first, dependencies.parent
  from way join dependencies on dependencies.child = way.seq
)
select first from way where seq = ?
"""
GATHER = """
with gatherer(seq, priority, missing, depth) as ({values})
update jobs
set priority = gatherer.priority, missing = gatherer.missing, depth = gatherer.depth
from gatherer where jobs.seq = gatherer.seq
"""


def spawn(env: Env, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what running jobs spawn, each under a valid lease, or raise DependencyError."""
    now = env.clock.now_us()
    jobs = yield from locate(each.token for each in spawns)
    replies: list[SpawnReply] = []
    for each in spawns:
        job = leased(jobs, each, now)
        if job is None:
            replies.append(LeaseLost(each.job_id))
            continue
        reply = yield from _spawn(env, each, job.seq, now)
        replies.append(reply)
    return (yield from with_states(replies))


def _spawn(env: Env, spawn: Spawn, seq: int, now: int) -> Plan[Spawned]:
    ((flow,),) = yield Statement(FLOW, (seq,))
    new = [replace(each, flow=flow) for each in spawn.jobs]
    accepted = yield from accept(env, new, atomic=True, now=now)
    followed = yield from _gather(env, seq, [each.stored for each in accepted])
    return Spawned(spawn.job_id.lower(), tuple(each.reply for each in accepted), followed)


def _gather(env: Env, seq: int, spawned: Sequence[Stored]) -> Plan[tuple[Moved, ...]]:
    """Make jobs that gather the children of row *seq* wait for *spawned*; return their moves."""
    waiting: defaultdict[int, list[Row]] = defaultdict(list)
    for row in (yield Statement(GATHERERS, (seq,))):
        waiting[row[0]].append(row)
    if not waiting:
        return ()
    entries: dict[int, Entry] = {}
    for gatherer, rows in waiting.items():
        # Linked one by one: of two spawned jobs that gather, the second must see the first.
        behind = yield from _behind(gatherer, spawned)
        more = _unknown(rows, [each for each in spawned if each.seq not in behind])
        place = rows[-1][5] + 1
        yield from link([(gatherer, place + index, each.seq) for index, each in enumerate(more)])
        if more:
            entries[gatherer] = _entry(rows[0], more)
    return (yield from _write(env, entries))


def _behind(gatherer: int, spawned: Sequence[Stored]) -> Plan[set[int]]:
    """Return which of *spawned* wait for row *gatherer* (S1-65)."""
    asked = [each.seq for each in spawned if each.parent.depth > 1]
    if not asked:
        return set()
    rows = yield Statement(WAYS, (numbers_json(asked), gatherer))
    return {first for (first,) in rows}


def _unknown(rows: Sequence[Row], spawned: Sequence[Stored]) -> list[Stored]:
    """Return the *spawned* jobs that a job does not wait for yet, each once."""
    known = {rows[0][0], *(row[6] for row in rows)}
    more = {each.seq: each for each in spawned if each.seq not in known}
    check_breadth(len(rows) + len(more))
    return list(more.values())


def _entry(row: Row, more: Sequence[Stored]) -> Entry:
    _, priority, mode, missing, depth, *_ = row
    waits = Waits(MODES[mode], missing, depth, gathers=True)
    return gather(waits, PRIORITIES[priority], [each.parent for each in more])


def _write(env: Env, entries: dict[int, Entry]) -> Plan[tuple[Moved, ...]]:
    """Update, unblock or end gathering jobs: what was spawned may have ended already."""
    changed = [
        (seq, int(entry.priority), entry.waits.missing, entry.waits.depth)
        for seq, entry in entries.items()
    ]
    for sql, params in values(GATHER, changed):
        yield Statement(sql, params)
    decisions: dict[int, Decision | None] = {
        seq: entry.decision
        for seq, entry in entries.items()
        if entry.decision is not None or not entry.waits.missing
    }
    if not decisions:
        return ()
    counters = JobCounters()
    followed = yield from end_waiting(env, decisions, env.clock.now_us(), counters)
    yield from counters.write()
    return followed
