"""What becomes of jobs that waited for others, in the transaction in which those have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from fencepost.core.dependents import MET, propagated, step
from fencepost.core.job import Failure
from fencepost.core.lifecycle import State
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.admission import Touched, admit
from fencepost.store.postgres.catalog import Env
from fencepost.store.postgres.moving import LIFT, Ending, lifted, put_ended
from fencepost.store.replies import Moved
from fencepost.store.states import BY_NUMBER, MODES

WAITING = """
select pending.seq, pending.mode, pending.missing, dependency.parent
from fencepost.pending join fencepost.dependency on dependency.child = pending.seq
where dependency.parent = any (%s::bigint[]) and pending.slot is null
order by pending.seq for update of pending
"""
COUNT_DOWN = "select fencepost.count_down(%s, %s, %s)::text"


class Told(msgspec.Struct, gc=False, array_like=True):
    """A job that was let go; with a slot, it waits for that now."""

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
    while ended:
        counts, doomed = yield from _judged(ended)
        moved += yield from _count_down(env, counts, touched)
        jobs = lifted((yield Statement(LIFT, (sorted(doomed),)))) if doomed else []
        endings = []
        for job in jobs:
            culprit = doomed[job.seq]
            decision = propagated(culprit.state, culprit.failure, culprit.job_id)
            endings.append(Ending(job, decision))
        touched.add((yield from put_ended(env, endings)))
        lanes = yield from env.catalog.lanes({job.lane for job in jobs})
        moved += [
            Moved(job.job_id, lanes[job.lane].type, decision.state, State.PENDING)
            for job, decision, _ in endings
        ]
        ended = ended_of(endings)
    return (*moved, *(yield from admit(env, touched)))


def _judged(ended: Sequence[Ended]) -> Plan[tuple[dict[int, int], dict[int, Ended]]]:
    """Return who waits for how many fewer, and who ends on whose account."""
    by_seq = {each.seq: each for each in ended}
    counts: dict[int, int] = {}
    doomed: dict[int, Ended] = {}
    for seq, mode, missing, parent in (yield Statement(WAITING, (list(by_seq),))):
        left = missing - counts.get(seq, 0)
        if seq in doomed or left == MET:
            continue
        verdict = step(MODES[mode], left, by_seq[parent].state)
        if verdict.doom is not None:
            doomed[seq] = by_seq[parent]
        else:
            counts[seq] = missing - verdict.missing
    return {seq: count for seq, count in counts.items() if seq not in doomed}, doomed


def _count_down(env: Env, counts: dict[int, int], touched: Touched) -> Plan[list[Moved]]:
    if not counts:
        return []
    moved = yield from count_down(env, counts, touched)
    return (yield from told(env, moved))


def count_down(env: Env, counts: dict[int, int], touched: Touched) -> Plan[list[Told]]:
    """Have jobs wait for so many fewer; return who was let go, to all but a slot of its key."""
    params = (env.now, list(counts), list(counts.values()))
    ((text,),) = yield Statement(COUNT_DOWN, params)
    answers = [] if text is None else _told.decode(text)
    touched.add((each.slot, 0) for each in answers if each.slot is not None)
    return [each for each in answers if each.slot is None]


def told(env: Env, moved: Sequence[Told]) -> Plan[list[Moved]]:
    """Return what ``fencepost.count_down`` said."""
    lanes = yield from env.catalog.lanes({each.lane for each in moved})
    return [
        Moved(each.job_id, lanes[each.lane].type, BY_NUMBER[each.number], State.PENDING)
        for each in moved
    ]
