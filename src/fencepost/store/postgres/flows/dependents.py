"""Jobs that others wait for, and what happens to those in the transaction in which these end.

A caller's transaction may stay open for long. So it locks neither the jobs that its new jobs wait
for nor the jobs that wait for those it ended. It leaves notes instead, which the next claim
resolves: it judges again what each job waits for, by the states at that time. It waits for no lock,
and leaves the note for another claim if another transaction holds a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fencepost.core.bounds import FOLLOW_BATCH, RESOLVE_BATCH
from fencepost.core.flows.dependents import MET, Parent
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Decision
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import wanted_ids
from fencepost.errors import UnknownDependencyError
from fencepost.store.interface.queue import Moved, portions
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import (
    DETACH_PENDING,
    DetachedEnding,
    attach_ended,
    detached,
)
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit
from fencepost.store.sql.codec import BY_NUMBER, COMPLETED, PENDING, decode_failure
from fencepost.store.sql.endings import (
    Ended,
    Ending,
    Stored,
    count_ended,
    ended_of,
    failed_by,
    judge_parents,
    moved,
)

COLUMNS = "id::text, seq, state, priority, depth, failure"
HOLD_IDS = f"""
select {COLUMNS} from fencepost.hold_parents(
  array(select seq from fencepost.submissions where id = any (%s::uuid[]) order by seq))
"""
LOOK_IDS = f"""
select id::text, seq, state, priority, coalesce(depth, 1),
  case when state > {COMPLETED} then failure end
from fencepost.jobs where id = any (%s::uuid[])
"""
HOLD_FREE = f"select {COLUMNS} from fencepost.hold_parents(%s::bigint[], false)"
HOLD_OF_CHILD = f"""
select parent.*, dependencies.place from fencepost.dependencies
join (select {COLUMNS} from fencepost.hold_parents(
  array(select parent from fencepost.dependencies where child = %s order by parent))
) as parent on parent.seq = dependencies.parent
where dependencies.child = %s order by dependencies.place
"""

Held = dict[str, Stored]
"""Jobs by their ids."""

WAITING = """
select pending.seq, pending.mode, pending.missing, dependencies.parent
from fencepost.pending join fencepost.dependencies on dependencies.child = pending.seq
where dependencies.parent = any (%s::bigint[]) and pending.slot is null
order by pending.seq for update of pending
"""
# Dependents of completed jobs are locked along with all that is behind the failed ones.
LOCK_BEHIND = """
select fencepost.lock_behind(
  %s, array(select child from fencepost.dependencies where parent = any (%s::bigint[])))
"""
CALL_BACK = "select fencepost.call_back(%s, %s)::text"
COUNT_DOWN = "select fencepost.count_down(%s, %s, %s)::text"

NOTE = """
insert into fencepost.unresolved(seq, has_ended) select x, %s from unnest(%s::bigint[]) as x
"""
# Only of jobs with dependents. A job that comes to depend on it in another caller's transaction has
# a note of its own. Above read committed an old snapshot does not show new dependents.
NOTE_ENDED = """
insert into fencepost.unresolved(seq, has_ended) select x, true from unnest(%s::bigint[]) as x
where current_setting('transaction_isolation') <> 'read committed'
  or exists (select 1 from fencepost.dependencies where parent = x)
"""
TAKE_NOTES = """
delete from fencepost.unresolved where ctid = any (array(
  select ctid from fencepost.unresolved limit %s for update skip locked)) returning seq, has_ended
"""
CHILDREN = """
select distinct pending.seq from fencepost.dependencies
join fencepost.pending on pending.seq = dependencies.child
where dependencies.parent = any (%s::bigint[]) and pending.slot is null
"""
STILL_WAITING = """
select seq from fencepost.pending where seq = any (%s::bigint[]) and slot is null
"""
LOCK_FREE = """
select seq, mode from fencepost.pending where seq = any (%s::bigint[]) and slot is null
order by seq for update skip locked
"""
EDGES = """
select child, parent from fencepost.dependencies
where child = any (%s::bigint[]) order by child, place
"""
STILL_THERE = "select seq from fencepost.submissions where seq = any (%s::bigint[])"
SET_MISSING = """
update fencepost.pending set missing = x.missing
from unnest(%s::bigint[], %s::integer[]) as x(seq, missing) where pending.seq = x.seq
"""
# Only a job that has ended can have been pruned: nothing waits for it, or fails because of it.
PRUNED = Parent("", State.COMPLETED, Priority.NORMAL)

# Rows are locked by one statement and read by the next: the transaction that held them before may
# have changed another job that a dependent waits for, which an earlier snapshot would not show.
OF_PARENTS = "array(select child from fencepost.dependencies where parent = any (%s::bigint[]))"
LOCK_HEIRS = f"""
select 1 from fencepost.submissions where seq = any ({OF_PARENTS}) and own_priority is not null
order by seq for no key update
"""
LOCK_WAITING_HEIRS = f"""
select 1 from fencepost.pending where seq = any ({OF_PARENTS}) and slot is null
order by seq for update
"""
HEIRS = f"""
select pending.seq, pending.lane, least(j.own_priority, (
  select min(lanes.priority) from fencepost.dependencies
  join fencepost.submissions as parent on parent.seq = dependencies.parent
  join fencepost.lanes on lanes.lane = parent.lane
  where dependencies.child = pending.seq
))
from fencepost.pending join fencepost.submissions j on j.seq = pending.seq
where pending.seq = any ({OF_PARENTS}) and pending.slot is null and j.own_priority is not null
"""
INHERIT = f"""
with given as (
  select * from unnest(%s::bigint[], %s::integer[], %s::integer[]) as x(seq, was_lane, lane)
), moved as (
  update fencepost.pending set lane = given.lane from given where pending.seq = given.seq
), described as (
  update fencepost.submissions set lane = given.lane from given where submissions.seq = given.seq
), counted as (
  insert into fencepost.counters(lane, state, count)
  select was_lane, {PENDING}, -count(*) from given group by was_lane
  union all
  select lane, {PENDING}, count(*) from given group by lane
)
select 1
"""


class ReleasedJob(msgspec.Struct, gc=False, array_like=True):
    """A dependent that no longer waits for jobs, or a new webhook delivery."""

    job_id: str
    lane: int
    number: int
    """Its new state."""
    slot: int | None = None
    """Set if it now waits for a slot of its concurrency key."""


_released = msgspec.json.Decoder(list[ReleasedJob])


def end(env: Env, endings: Sequence[DetachedEnding]) -> Plan[tuple[Moved, ...]]:
    """Store jobs whose attempt or life has ended; return the jobs that moved as a result."""
    freed = FreedSlots()
    freed.add((yield from attach_ended(env, endings)))
    return (yield from _follow(env, ended_of(endings), freed))


def _follow(env: Env, ended: Mapping[int, Ended], freed: FreedSlots) -> Plan[tuple[Moved, ...]]:
    """Release or end the dependents of *ended*, and those behind them; then fill *freed* slots."""
    moves: list[Moved] = []
    if env.is_joined:
        return (yield from _leave_notes(env, ended, freed))
    failed = [seq for seq, each in ended.items() if each.state is not State.COMPLETED]
    if failed:
        completed = [seq for seq, each in ended.items() if each.state is State.COMPLETED]
        yield Statement(LOCK_BEHIND, (failed, completed))
    while ended:
        for seqs in portions(list(ended), FOLLOW_BATCH):
            moves += yield from _call_back(env, seqs)
        counts, failing = yield from _judged(ended)
        moves += yield from count_down(env, counts, freed)
        ended = {}
        for seqs in portions(sorted(failing), FOLLOW_BATCH):
            endings = yield from _detach({seq: failing[seq] for seq in seqs})
            moves += yield from _attach(env, endings, freed)
            ended |= ended_of(endings)
    return (*moves, *(yield from admit(env, freed)))


def _call_back(env: Env, seqs: Sequence[int]) -> Plan[list[Moved]]:
    """Store the webhook deliveries of jobs that have ended."""
    ((text,),) = yield Statement(CALL_BACK, (env.now, list(seqs)))
    return (yield from moves_of(env, [] if text is None else _released.decode(text)))


def _leave_notes(
    env: Env, ended: Mapping[int, Ended], freed: FreedSlots
) -> Plan[tuple[Moved, ...]]:
    """Leave the dependents of *ended* to the next claim."""
    moves = yield from _call_back(env, list(ended))
    yield Statement(NOTE_ENDED, (list(ended),))
    yield from admit(env, freed)
    return tuple(moves)


def end_waiting(env: Env, failing: Mapping[int, Decision]) -> Plan[list[Moved]]:
    """End jobs that wait for others, and those behind them."""
    freed = FreedSlots()
    endings = yield from _detach(failing)
    moves = yield from _attach(env, endings, freed)
    return [*moves, *(yield from _follow(env, ended_of(endings), freed))]


def _detach(failing: Mapping[int, Decision]) -> Plan[list[DetachedEnding]]:
    jobs = detached((yield Statement(DETACH_PENDING, (sorted(failing),)))) if failing else []
    return [Ending(job, failing[job.seq]) for job in jobs]


def _attach(env: Env, endings: Sequence[DetachedEnding], freed: FreedSlots) -> Plan[list[Moved]]:
    freed.add((yield from attach_ended(env, endings)))
    return (yield from moved(env, endings))


def _judged(ended: Mapping[int, Ended]) -> Plan[tuple[dict[int, int], dict[int, Decision]]]:
    """Return how many fewer jobs each dependent waits for, and which dependents fail."""
    waiting: list[tuple[int, int, int, int]] = []
    for seqs in portions(list(ended), FOLLOW_BATCH):
        waiting += yield Statement(WAITING, (seqs,))
    missing, failing = count_ended(waiting, ended)
    was_missing = {row[0]: row[2] for row in waiting}
    return {seq: was_missing[seq] - left for seq, left in missing.items()}, failing


def count_down(env: Env, counts: dict[int, int], freed: FreedSlots) -> Plan[list[Moved]]:
    """Reduce how many jobs each of *counts* waits for; return those that wait for none any more.

    A job with a concurrency key is not among them: it waits for a slot, which is added to *freed*.
    """
    if not counts:
        return []
    released: list[ReleasedJob] = []
    for seqs in portions(sorted(counts), FOLLOW_BATCH):
        params = (env.now, seqs, [counts[seq] for seq in seqs])
        ((text,),) = yield Statement(COUNT_DOWN, params)
        released += [] if text is None else _released.decode(text)
    freed.add((each.slot, 0) for each in released if each.slot is not None)
    return (yield from moves_of(env, [each for each in released if each.slot is None]))


def moves_of(env: Env, released: Sequence[ReleasedJob]) -> Plan[list[Moved]]:
    """Return *released* as replies name them."""
    lanes = yield from env.catalog.lanes({each.lane for each in released})
    return [
        Moved(each.job_id, lanes[each.lane].type, BY_NUMBER[each.number], State.PENDING)
        for each in released
    ]


def note_waiting(seqs: Sequence[int]) -> Plan[None]:
    """Leave a note on each job: it may wait for one that has ended."""
    if seqs:
        yield Statement(NOTE, (False, list(seqs)))


def resolve(env: Env) -> Plan[tuple[list[Moved], bool]]:
    """Resolve notes; return the jobs that moved, and whether some notes had to stay."""
    rows = yield Statement(TAKE_NOTES, (RESOLVE_BATCH,))
    asked = {seq for seq, has_ended in rows if not has_ended}
    if ended := [seq for seq, has_ended in rows if has_ended]:
        asked |= {seq for (seq,) in (yield Statement(CHILDREN, (ended,)))}
    modes: dict[int, int] = dict((yield Statement(LOCK_FREE, (sorted(asked),))))
    edges: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in (yield Statement(EDGES, (list(modes),))):
        edges[child].append(parent)
    parents = yield from _free_parents({seq for each in edges.values() for seq in each})
    known = {seq for seq in modes if all(parent in parents for parent in edges[seq])}
    left = (yield Statement(STILL_WAITING, (sorted(asked - known),))) if asked - known else []
    yield from note_waiting([seq for (seq,) in left])
    judged = {
        seq: _judge(modes[seq], [parents[each] for each in edges[seq]]) for seq in sorted(known)
    }
    return (yield from _resolve(env, judged)), bool(left)


def _free_parents(seqs: set[int]) -> Plan[dict[int, Parent]]:
    """Return jobs by number, without those that another transaction has locked."""
    parents = yield from hold_free(seqs)
    if missing := seqs - parents.keys():
        there = {seq for (seq,) in (yield Statement(STILL_THERE, (sorted(missing),)))}
        parents |= dict.fromkeys(missing - there, PRUNED)
    return parents


def _judge(mode: int, parents: Sequence[Parent]) -> int | Decision:
    """Return how many jobs a job waits for, or how it ends."""
    missing, failed = judge_parents(mode, parents)
    return missing if failed is None else failed_by(failed)


def _resolve(env: Env, judged: dict[int, int | Decision]) -> Plan[list[Moved]]:
    missing = {seq: each for seq, each in judged.items() if isinstance(each, int)}
    failing = {seq: each for seq, each in judged.items() if isinstance(each, Decision)}
    moves: list[Moved] = []
    if missing:
        yield Statement(SET_MISSING, (list(missing), list(missing.values())))
    freed = FreedSlots()
    free = {seq: count for seq, count in missing.items() if count == MET}
    moves += yield from count_down(env, free, freed)
    moves += yield from admit(env, freed)
    if failing:
        moves += yield from end_waiting(env, failing)
    return moves


def pass_on_priority(env: Env, seq: int) -> Plan[None]:
    """Give dependents that inherit a job's priority, and those behind them, its new one (S1-37)."""
    changed = [seq]
    while changed:
        if not (yield Statement(LOCK_HEIRS, (changed,))):
            return
        yield Statement(LOCK_WAITING_HEIRS, (changed,))
        rows = yield Statement(HEIRS, (changed,))
        lanes = yield from env.catalog.lanes({lane for _, lane, _ in rows})
        heirs = [row for row in rows if lanes[row[1]].priority != row[2]]
        if not heirs:
            return
        wanted: dict[tuple[int, int], int] = {}
        for _, number, priority in heirs:
            if (number, priority) not in wanted:
                lane, urgent = lanes[number], Priority(priority)
                found = yield from env.catalog.lane_number(lane.queue, lane.type, urgent)
                wanted[number, priority] = found
        changed = [row[0] for row in heirs]
        params = (changed, [row[1] for row in heirs], [wanted[row[1], row[2]] for row in heirs])
        yield Statement(INHERIT, params)


def hold(job_ids: Iterable[str], *, is_joined: bool = False) -> Plan[Held]:
    """Return jobs by their ids, or raise UnknownDependencyError.

    They cannot end before this transaction does; a transaction that ends one then sees its new
    dependents. In a caller's transaction, which may stay open for long, they are only read.
    """
    asked = list(job_ids)
    wanted = list(wanted_ids(asked).values())
    rows = (yield Statement(LOOK_IDS if is_joined else HOLD_IDS, (wanted,))) if wanted else []
    return named(rows, asked)


def named(rows: Sequence[Row], asked: Iterable[str]) -> Held:
    """Return the jobs that were found, or raise UnknownDependencyError."""
    found = {row[0]: Stored(row[1], _parent(row)) for row in rows}
    for job_id in asked:
        if job_id.lower() not in found:
            raise UnknownDependencyError(job_id)
    return found


def hold_free(seqs: Iterable[int]) -> Plan[dict[int, Parent]]:
    """Return jobs by number, locked where they are, without those that are already locked."""
    asked = sorted(seqs)
    rows = (yield Statement(HOLD_FREE, (asked,))) if asked else []
    return {row[1]: _parent(row) for row in rows}


def hold_of(seq: int) -> Plan[list[Parent]]:
    """Return the dependencies of a stored job, in order, locked where they are."""
    return [_parent(row) for row in (yield Statement(HOLD_OF_CHILD, (seq, seq)))]


def _parent(row: Row) -> Parent:
    job_id, _, state, priority, depth, failure, *_ = row
    return Parent(job_id, BY_NUMBER[state], Priority(priority), depth, decode_failure(failure))
