"""What becomes of jobs that waited for others, in the transaction in which those have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.flows.dependents import MET, propagated, step
from fencepost.core.job.job import Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Decision
from fencepost.store.interface.batches import portions
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import LIFT_PENDING, Ending, lifted, put_ended
from fencepost.store.postgres.joins.notes import note_ended
from fencepost.store.postgres.limits.concurrency import Touched, admit
from fencepost.store.sql.codes import BY_NUMBER, MODES

WAITING = """
select pending.seq, pending.mode, pending.missing, dependency.parent
from fencepost.pending join fencepost.dependency on dependency.child = pending.seq
where dependency.parent = any (%s::bigint[]) and pending.slot is null
order by pending.seq for update of pending
"""
# Who waits for those that have completed is locked along with all that is behind the others.
LOCK_BEHIND = """
select fencepost.lock_behind(
  %s, array(select child from fencepost.dependency where parent = any (%s::bigint[])))
"""
CALL_BACK = "select fencepost.call_back(%s, %s)::text"
COUNT_DOWN = "select fencepost.count_down(%s, %s, %s)::text"


class Told(msgspec.Struct, gc=False, array_like=True):
    """A job that was let go, or that tells of one that has ended; with a slot, one that waits."""

    job_id: str
    lane: int
    number: int
    """Its new state."""
    slot: int | None = None


_told = msgspec.json.Decoder(list[Told])


class Ended(NamedTuple):
    """A job that has just reached a terminal state."""

    seq: int
    job_id: str
    state: State
    failure: Failure | None


def ended_of(endings: Iterable[Ending]) -> list[Ended]:
    """Return those of *endings* that were the end of their jobs."""
    return [
        Ended(job.seq, job.job_id, decision.state, decision.failure)
        for job, decision, _ in endings
        if decision.state.is_terminal
    ]


def end(env: Env, endings: Sequence[Ending]) -> Plan[tuple[Moved, ...]]:
    """Put down jobs whose attempt or life has ended; return what became of who waited for them."""
    touched = Touched()
    touched.add((yield from put_ended(env, endings)))
    return (yield from follow(env, ended_of(endings), touched))


def follow(env: Env, ended: Sequence[Ended], touched: Touched) -> Plan[tuple[Moved, ...]]:
    """Let go, or end, the jobs that waited for those that have ended, and those behind them.

    Last, give away the slots that were *touched*, by all this or before.
    """
    moved: list[Moved] = []
    if env.is_joined:
        return (yield from _leave_notes(env, ended, touched))
    failed = [each.seq for each in ended if each.state is not State.COMPLETED]
    if failed:
        completed = [each.seq for each in ended if each.state is State.COMPLETED]
        yield Statement(LOCK_BEHIND, (failed, completed))
    while ended:
        for portion in portions(ended, FOLLOW_BATCH):
            ((text,),) = yield Statement(CALL_BACK, (env.now, [each.seq for each in portion]))
            moved += yield from told(env, [] if text is None else _told.decode(text))
        counts, doomed = yield from _judged(ended)
        moved += yield from count_down(env, counts, touched)
        ended = []
        for seqs in portions(sorted(doomed), FOLLOW_BATCH):
            endings = yield from _lift({seq: doomed[seq] for seq in seqs})
            moved += yield from _put(env, endings, touched)
            ended += ended_of(endings)
    return (*moved, *(yield from admit(env, touched)))


def _leave_notes(env: Env, ended: Sequence[Ended], touched: Touched) -> Plan[tuple[Moved, ...]]:
    """Leave it to the next claim to see who waits for *ended*."""
    seqs = [each.seq for each in ended]
    ((text,),) = yield Statement(CALL_BACK, (env.now, seqs))
    yield from note_ended(seqs)
    yield from admit(env, touched)
    return tuple((yield from told(env, [] if text is None else _told.decode(text))))


def end_waiting(env: Env, doomed: Mapping[int, Decision]) -> Plan[list[Moved]]:
    """End jobs that wait for others, and those behind them."""
    touched = Touched()
    endings = yield from _lift(doomed)
    moved = yield from _put(env, endings, touched)
    return [*moved, *(yield from follow(env, ended_of(endings), touched))]


def _lift(doomed: Mapping[int, Decision]) -> Plan[list[Ending]]:
    jobs = lifted((yield Statement(LIFT_PENDING, (sorted(doomed),)))) if doomed else []
    return [Ending(job, doomed[job.seq]) for job in jobs]


def _put(env: Env, endings: Sequence[Ending], touched: Touched) -> Plan[list[Moved]]:
    touched.add((yield from put_ended(env, endings)))
    lanes = yield from env.catalog.lanes({job.lane for job, _, _ in endings})
    return [
        Moved(job.job_id, lanes[job.lane].type, decision.state, State.PENDING)
        for job, decision, _ in endings
    ]


def _judged(ended: Sequence[Ended]) -> Plan[tuple[dict[int, int], dict[int, Decision]]]:
    """Return who waits for how many fewer, and who ends on whose account."""
    by_seq = {each.seq: each for each in ended}
    counts: dict[int, int] = {}
    doomed: dict[int, Decision] = {}
    waiting: list[Row] = []
    for seqs in portions(list(by_seq), FOLLOW_BATCH):
        waiting += yield Statement(WAITING, (seqs,))
    for seq, mode, missing, parent in waiting:
        left = missing - counts.get(seq, 0)
        if seq in doomed or left == MET:
            continue
        verdict = step(MODES[mode], left, by_seq[parent].state)
        if verdict.doom is not None:
            culprit = by_seq[parent]
            doomed[seq] = propagated(culprit.state, culprit.failure, culprit.job_id)
        else:
            counts[seq] = missing - verdict.missing
    return {seq: count for seq, count in counts.items() if seq not in doomed}, doomed


def count_down(env: Env, counts: dict[int, int], touched: Touched) -> Plan[list[Moved]]:
    """Have jobs wait for so many fewer; return those that wait for none any more.

    One that has a concurrency key is not among them: it waits for a slot, which is *touched*.
    """
    if not counts:
        return []
    answers: list[Told] = []
    for seqs in portions(sorted(counts), FOLLOW_BATCH):
        params = (env.now, seqs, [counts[seq] for seq in seqs])
        ((text,),) = yield Statement(COUNT_DOWN, params)
        answers += [] if text is None else _told.decode(text)
    touched.add((each.slot, 0) for each in answers if each.slot is not None)
    return (yield from told(env, [each for each in answers if each.slot is None]))


def told(env: Env, moved: Sequence[Told]) -> Plan[list[Moved]]:
    """Return what ``fencepost.count_down`` or ``fencepost.call_back`` said."""
    lanes = yield from env.catalog.lanes({each.lane for each in moved})
    return [
        Moved(each.job_id, lanes[each.lane].type, BY_NUMBER[each.number], State.PENDING)
        for each in moved
    ]
