"""What has become of jobs that were stored, or have ended, in transactions of callers.

Such a transaction may stay open for long. So it locks neither what its jobs wait for nor who waits
for its jobs, and leaves notes; a claim looks at these when it is over. It judges anew what each job
waits for, by what is true now, and waits for nobody: where somebody has one of the rows in hand, it
leaves the note for another claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fencepost.core.bounds import RESOLVE_BATCH
from fencepost.core.flows.dependents import MET, Parent, judge, propagated
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Decision
from fencepost.core.job.priority import Priority
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import count_down, end_waiting
from fencepost.store.postgres.flows.parents import hold_free
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.joins.notes import note, take
from fencepost.store.postgres.limits.concurrency import Touched, admit
from fencepost.store.sql.codes import MODES

CHILDREN = """
select distinct pending.seq from fencepost.dependency
join fencepost.pending on pending.seq = dependency.child
where dependency.parent = any (%s::bigint[]) and pending.slot is null
"""
STILL_WAITING = """
select seq from fencepost.pending where seq = any (%s::bigint[]) and slot is null
"""
LOCK = """
select seq, mode from fencepost.pending where seq = any (%s::bigint[]) and slot is null
order by seq for update skip locked
"""
EDGES = """
select child, parent from fencepost.dependency
where child = any (%s::bigint[]) order by child, place
"""
STILL_THERE = "select seq from fencepost.job where seq = any (%s::bigint[])"
SET_MISSING = """
update fencepost.pending set missing = x.missing
from unnest(%s::bigint[], %s::integer[]) as x(seq, missing) where pending.seq = x.seq
"""
# Only what has ended can have been pruned: nobody waits for it, or ends on its account.
PRUNED = Parent("", State.COMPLETED, Priority.NORMAL)


def resolve(env: Env) -> Plan[tuple[list[Moved], bool]]:
    """Look at what notes were left on; return what moved, and whether some had to stay."""
    waiting, ended = yield from take(RESOLVE_BATCH)
    asked = set(waiting)
    if ended:
        asked |= {seq for (seq,) in (yield Statement(CHILDREN, (ended,)))}
    modes: dict[int, int] = dict((yield Statement(LOCK, (sorted(asked),))))
    edges = yield from _edges(list(modes))
    parents = yield from _parents({seq for each in edges.values() for seq in each})
    known = {seq for seq in modes if all(parent in parents for parent in edges[seq])}
    left = (yield Statement(STILL_WAITING, (sorted(asked - known),))) if asked - known else []
    yield from note([seq for (seq,) in left], has_ended=False)
    judged = {
        seq: _judge(modes[seq], [parents[each] for each in edges[seq]]) for seq in sorted(known)
    }
    return (yield from _move(env, judged)), bool(left)


def _edges(children: Sequence[int]) -> Plan[dict[int, list[int]]]:
    """Return what each job waits for or waited for, in order."""
    edges: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in (yield Statement(EDGES, (children,))):
        edges[child].append(parent)
    return edges


def _parents(seqs: set[int]) -> Plan[dict[int, Parent]]:
    """Return jobs by their numbers; but none that somebody has in hand."""
    parents = yield from hold_free(seqs)
    if missing := seqs - parents.keys():
        there = {seq for (seq,) in (yield Statement(STILL_THERE, (sorted(missing),)))}
        parents |= dict.fromkeys(missing - there, PRUNED)
    return parents


def _judge(mode: int, parents: Sequence[Parent]) -> int | Decision:
    """Return how many a job waits for, or how it ends."""
    missing, doom = judge(MODES[mode], [parent.state for parent in parents])
    if doom is None:
        return missing
    culprit = parents[doom]
    return propagated(culprit.state, culprit.failure, culprit.job_id)


def _move(env: Env, judged: dict[int, int | Decision]) -> Plan[list[Moved]]:
    missing = {seq: each for seq, each in judged.items() if isinstance(each, int)}
    doomed = {seq: each for seq, each in judged.items() if isinstance(each, Decision)}
    moved: list[Moved] = []
    if missing:
        yield Statement(SET_MISSING, (list(missing), list(missing.values())))
    touched = Touched()
    free = {seq: count for seq, count in missing.items() if count == MET}
    moved += yield from count_down(env, free, touched)
    moved += yield from admit(env, touched)
    if doomed:
        moved += yield from end_waiting(env, doomed)
    return moved
