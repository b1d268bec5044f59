"""The checker: from what a run has left behind to what was broken. Pure; each rule can fail.

Every rule is a function from Evidence to violations, listed in RULES. None asks the product what
is right: the rules follow from the promises alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from fencepost.core.job.lifecycle import TERMINAL, TRANSITIONS, Event, State
from lab.chaos.dependencies import SKEW, forgotten, too_early, unjust
from lab.chaos.dump import Record, Run
from lab.chaos.entries import Started, Taken
from lab.chaos.evidence import FORGOTTEN, Evidence
from lab.chaos.records import MADE, crowded, half_sent, ticked_twice, too_often, untold
from lab.chaos.tasks import EVENT_TYPES, TICK
from lab.chaos.violation import Violation
from lab.chaos.windows import Windows

INSTANT = 0.00001
"""Seconds by which two times of one store may differ for having been written as fractions."""
AFTERSHOCK = 3.0
"""Seconds, beside a TTL, for which a fault of the store is still felt: callers and workers come
back to it a little later each time."""
PATIENCE = 60.0
"""Seconds, beside a TTL, after which a job that has not ended never will."""
REWIND = 5.0
"""Seconds that a claim may be old when its handler starts."""
ZOMBIE = '"zombie"'
ORDERED = "ordered"


Rule = Callable[[Evidence], Iterator[Violation]]


def check(evidence: Evidence, rules: Iterable[Rule] | None = None) -> list[Violation]:
    """Return everything that is wrong."""
    return [found for rule in rules or RULES for found in rule(evidence)]


# What was acknowledged.


def lost(evidence: Evidence) -> Iterator[Violation]:
    """Every acknowledged job is there, under its key and type."""
    jobs = {record.id: record for record in evidence.records}
    excused = taken_back(evidence)
    for key, ids in evidence.acknowledged.items():
        for job_id in ids - excused:
            record = jobs.get(job_id)
            if record is None:
                yield Violation("lost", job_id, f"acknowledged for {key}, and not in the store")
            elif record.type != key.partition("/")[0] or (
                record.key != key and record.type not in EVENT_TYPES
            ):
                yield Violation("lost", job_id, f"acknowledged for {key}, stored as {record.key}")


def taken_back(evidence: Evidence) -> set[str]:
    """Return the jobs that are lost, as the durability that was asked for allows in a failover."""
    stored, windows = {record.id for record in evidence.records}, evidence.lost()
    return {
        job_id
        for job_id, span in evidence.answered.items()
        if job_id not in stored and windows.touch(*span)
    }


def one_job_a_key(evidence: Evidence) -> Iterator[Violation]:
    """A key that was repeated names the same job again, and nothing was stored unasked."""
    for key, ids in evidence.acknowledged.items():
        if len(ids) > 1:
            yield Violation("one_job_a_key", key, f"acknowledged as {sorted(ids)}")
    stored = Counter(str(record.key) for record in evidence.records if record.type not in MADE)
    for key, count in stored.items():
        if count > 1:
            yield Violation("one_job_a_key", key, f"{count} jobs")
        if key not in evidence.asked:
            yield Violation("one_job_a_key", key, "nobody asked for it")


def unfinished(evidence: Evidence) -> Iterator[Violation]:
    """Every job ended, soon after the faults had stopped."""
    if evidence.calm_at is None:
        yield Violation("unfinished", "run", "the faults never stopped")
        return
    latest = evidence.calm_at + evidence.ttl + PATIENCE
    for record in evidence.records:
        if record.type == TICK and record.created_at > evidence.calm_at:
            continue  # there is one a minute, and it may be the last minute
        if State(record.state) not in TERMINAL:
            yield Violation("unfinished", record.id, f"still {record.state}")
        elif record.completed_at is None or record.completed_at > latest:
            yield Violation("unfinished", record.id, f"ended at {record.completed_at}")


# Leases.


def overlapping(evidence: Evidence) -> Iterator[Violation]:
    """A lease begins when the one before has ended, by the store and by the handlers."""
    forgetful = evidence.forgetful()
    for record in evidence.records:
        for before, after in pairwise(record.runs):
            if before.ended is None or before.ended > after.began:
                detail = f"lease {before.version} ended at {before.ended}, "
                detail += f"lease {after.version} began at {after.began}"
                yield Violation("overlapping", record.id, detail)
        runs = {run.version: run for run in record.runs}
        ends = {after.version: before.ended for before, after in pairwise(record.runs)}
        for run in runs.values():
            for started in evidence.started.get((record.id, run.version), ())[-1:]:
                earliest = max(run.began, ends.get(run.version) or 0.0)
                if started.at < earliest - SKEW and not forgetful.touch(
                    started.at - REWIND, earliest
                ):
                    detail = f"run under lease {run.version} at {started.at}, before {earliest}"
                    yield Violation("overlapping", record.id, detail)


def cut_short(evidence: Evidence) -> Iterator[Violation]:
    """No lease is taken back before its time: heartbeats make it longer, never shorter."""
    for record in evidence.records:
        for run in record.runs:
            if run.code == "lease_expired" and run.ended is not None:
                lasted = run.ended - run.began
                if lasted < evidence.ttl - INSTANT:
                    detail = f"lease {run.version} was taken back after {lasted:.6f} s"
                    yield Violation("cut_short", record.id, detail)


def one_run_a_lease(evidence: Evidence) -> Iterator[Violation]:
    """No lease is run twice, and none that the store does not know.

    A server that dies may forget a claim that nothing depended on: that attempt ran, and is not on
    record. It may have been claimed before the server died, and run only after that.
    """
    forgetful = evidence.forgetful()
    known = {(record.id, run.version) for record in evidence.records for run in record.runs}
    tokens: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (job, version), starts in evidence.started.items():
        began = min(started.at for started in starts)
        if (job, version) not in known and not forgetful.touch(began - REWIND, began + FORGOTTEN):
            yield Violation("one_run_a_lease", job, f"lease {version} is not in the store")
        if len(starts) > 1:
            yield Violation("one_run_a_lease", job, f"lease {version} was run twice")
        for started in starts:
            if started.token in tokens[job]:
                yield Violation("one_run_a_lease", job, f"token of lease {version} used twice")
            tokens[job][started.token] = version


def fence(evidence: Evidence) -> Iterator[Violation]:
    """A version belongs to one claim, and rises with every claim: no crash of a server excuses it.

    By those who held the leases, so that it holds for those too that the store has forgotten.
    """
    for job, held in evidence.held.items():
        tokens: dict[int, str] = {}
        for lease in held:
            if tokens.setdefault(lease.version, lease.token) != lease.token:
                yield Violation("fence", job, f"version {lease.version} was given out twice")
        # A worker that was stopped after a claim may start its handler after that of a later one.
        newest = 0
        for at, version in _claimed_before(held):
            if version < newest:
                yield Violation("fence", job, f"version {version} at {at} follows {newest}")
            newest = max(newest, version)


def _claimed_before(held: list[Started | Taken]) -> Iterator[tuple[float, int]]:
    """Return the first lease, and each whose claim surely came after the one returned before."""
    last: float | None = None
    for lease in sorted(held, key=lambda each: each.at):
        if last is None or lease.at - REWIND > last:
            yield lease.at, lease.version
            last = lease.at


def settled_once(evidence: Evidence) -> Iterator[Violation]:
    """At most one success, the last; and its result is that of the lease that gave it."""
    revived = evidence.revived()
    for record in evidence.records:
        if record.id in revived:
            continue
        successes = [run for run in record.runs if run.outcome == "succeeded"]
        is_completed = record.state == State.COMPLETED
        if len(successes) != is_completed or (successes and successes[0] is not record.runs[-1]):
            yield Violation("settled_once", record.id, f"{len(successes)} successes")
        elif is_completed and record.result != str(record.runs[-1].version):
            detail = f"result {record.result} under lease {record.runs[-1].version}"
            yield Violation("settled_once", record.id, detail)


def stale_accepted(evidence: Evidence) -> Iterator[Violation]:
    """No write under a lease that had ended was accepted, or left a mark."""
    for tried in evidence.tried:
        for each in () if evidence.taken_back(tried) else tried.accepted:
            yield Violation("stale_accepted", "zombie", each)
    revived = evidence.revived()
    for record in evidence.records:
        if ZOMBIE in (record.result, record.checkpoint) and record.id not in revived:
            yield Violation("stale_accepted", record.id, "it carries the mark of a stale write")


def checkpoint_lost(evidence: Evidence) -> Iterator[Violation]:
    """An attempt begins with the last checkpoint whose save was acknowledged."""
    excused = evidence.lost()
    for (job, version), starts in evidence.started.items():
        steps = [
            each.step
            for each in evidence.kept.get(job, ())
            if each.version < version and not excused.touch(each.at, each.at)
        ]
        seen = starts[-1].checkpoint or 0
        if steps and seen < max(steps):
            detail = f"lease {version} saw {seen}, though {max(steps)} was kept"
            yield Violation("checkpoint_lost", job, detail)


# The way of a job.


def legal(evidence: Evidence) -> Iterator[Violation]:
    """The attempts and the state are a walk through the table of transitions."""
    for record in evidence.records:
        fault = _illegality(record)
        if fault is not None:
            yield Violation("legal", record.id, fault)


EVENTS = {
    "succeeded": (Event.SUCCEED,),
    "failed": (Event.RETRY, Event.REJECT, Event.EXHAUST, Event.EXPIRE),
    "released": (Event.RELEASE,),
    "snoozed": (Event.SNOOZE,),
    "unreadable": (Event.RETRY,),
    "cancelled": (Event.CANCEL,),
    "running": (),
}
UNCOUNTED = ("released", "snoozed", "unreadable")


def _illegality(record: Record) -> str | None:
    """Return what is wrong with the walk of one job."""
    versions = [run.version for run in record.runs]
    if versions != sorted({*versions, record.version} - {0}):
        return f"leases {versions}, of {record.version}"
    if record.failed_dependency is not None:  # it never ran, see `unjust`
        reachable = set(TRANSITIONS[State.PENDING].values()) & TERMINAL
        return None if State(record.state) in reachable else f"{record.state} without a run"
    states = {State.SCHEDULED}
    for run in record.runs:
        if State.SCHEDULED not in _settle_down(states):
            return f"lease {run.version} on a job that was {sorted(states)}"
        after = TRANSITIONS[State.RUNNING]
        states = {after[event] for event in EVENTS[run.outcome]} or {State.RUNNING}
    reached = _settle_down(states)
    return None if State(record.state) in reached else f"{record.state} after {sorted(states)}"


def _settle_down(states: set[State]) -> set[State]:
    """Return where a job in one of *states* can be once it has been made ready."""
    return states | {TRANSITIONS[s][Event.READY] for s in states if Event.READY in TRANSITIONS[s]}


def attempts_bounded(evidence: Evidence) -> Iterator[Violation]:
    """Attempts are counted one by one, crashes too, and are never more than allowed."""
    for record in evidence.records:
        expected = 1
        for run in record.runs:
            if run.number != expected or run.number > record.max_attempts:
                detail = f"lease {run.version} is attempt {run.number}, not {expected}"
                yield Violation("attempts_bounded", record.id, detail)
            expected = run.number + (run.outcome not in UNCOUNTED)


def uncounted(evidence: Evidence) -> Iterator[Violation]:
    """What a worker had started before it was killed is counted; only the rest is released."""
    for record in evidence.records:
        for run in record.runs:
            lease = record.id, run.version
            if run.outcome != "released" or run.ended is None or lease in evidence.interrupted:
                continue  # a worker that is asked to stop interrupts handlers, and releases
            killed_at = evidence.killed.get(evidence.pids.get(run.worker, 0))
            if killed_at is not None and killed_at < run.ended and lease in evidence.started:
                detail = f"lease {run.version} had started, and was released at {run.ended}"
                yield Violation("uncounted", record.id, detail)


def unexplained(evidence: Evidence) -> Iterator[Violation]:
    """Every attempt beyond the first follows from a fault, a failure or a release."""
    wide = evidence.wide(evidence.ttl + AFTERSHOCK)
    for record in evidence.records:
        for run in record.runs[:-1]:
            if not _is_explained(evidence, record, run, wide):
                detail = f"lease {run.version} of {run.worker} ended as {run.outcome} "
                detail += f"({run.code}) at {run.ended}"
                yield Violation("unexplained", record.id, detail)


def _is_explained(evidence: Evidence, record: Record, run: Run, wide: Windows) -> bool:
    if run.outcome != "failed":
        return run.outcome == "released"
    if run.code != "lease_expired":
        return (record.id, run.version) in evidence.raised
    if (record.id, run.version) in evidence.taken:
        return True
    assert run.ended is not None
    if wide.touch(run.began, run.ended):
        return True
    pid = evidence.pids.get(run.worker, 0)
    killed_at = evidence.killed.get(pid)
    if killed_at is not None and run.began - SKEW <= killed_at <= run.ended + SKEW:
        return True
    if any(s.at <= run.ended and s.until >= run.began for s in evidence.stopped.get(pid, ())):
        return True
    stalls = evidence.stalled.get(pid, ())
    return any(s.at - s.seconds <= run.ended and s.at >= run.began for s in stalls)


def ordered(evidence: Evidence) -> Iterator[Violation]:
    """One worker with one slot starts jobs of one queue in the order of their submission.

    But for the time in which the store is hurt: what a foreign transaction has locked is passed by.
    """
    hurt = evidence.wide(evidence.ttl)
    line = [record for record in evidence.records if record.queue == ORDERED]
    claims = [(record.id, record.runs[0].began) for record in line if record.runs]
    yield from _out_of_order("claimed", claims, hurt)
    starts = [
        (record.id, evidence.started[first][-1].at)
        for record in line
        if (first := (record.id, record.runs[0].version if record.runs else 0)) in evidence.started
    ]
    yield from _out_of_order("started", starts, hurt)


def _out_of_order(what: str, times: list[tuple[str, float]], hurt: Windows) -> Iterator[Violation]:
    for (_, before), (job, after) in pairwise(times):
        if after < before and not hurt.touch(after, before):
            yield Violation("ordered", job, f"{what} {before - after:.3f} s before an earlier one")


# The store itself.


def intact(evidence: Evidence) -> Iterator[Violation]:
    """The data are whole, and the store's counters count what is there."""
    if evidence.integrity != "ok":
        yield Violation("intact", "store", evidence.integrity)
    counts = Counter(record.state for record in evidence.records)
    told = {state: count for state, count in evidence.counts.items() if count}
    if dict(counts) != told:
        yield Violation("intact", "store", f"it counts {told}, and has {dict(counts)}")


RULES: tuple[Rule, ...] = (
    lost,
    one_job_a_key,
    unfinished,
    overlapping,
    cut_short,
    one_run_a_lease,
    fence,
    settled_once,
    stale_accepted,
    checkpoint_lost,
    legal,
    attempts_bounded,
    uncounted,
    unexplained,
    ordered,
    too_early,
    forgotten,
    unjust,
    crowded,
    too_often,
    half_sent,
    ticked_twice,
    untold,
    intact,
)
