"""Dependents: unblocked or ended when the jobs that they wait for have ended.

All code that ends jobs ends them through here, and their dependents follow in the same commit,
level by level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fencepost.core.flows.dependencies import Mode
from fencepost.core.flows.dependents import MET
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import Event, State, first_state
from fencepost.core.job.outcome import Decision
from fencepost.core.values.times import from_us
from fencepost.core.webhooks.delivery import Delivery, delivery_job
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.finish import KeptEnding, end
from fencepost.store.redis.limits.concurrency import Scope, admit, scope_of
from fencepost.store.sql.codec import MODE_NUMBER
from fencepost.store.sql.endings import Ended, count_ended


def end_all(
    unit: Unit, endings: Sequence[KeptEnding]
) -> Plan[tuple[list[Moved], tuple[Moved, ...]]]:
    """End attempts; return their moves, and the moves of jobs that followed."""
    moves = [end(unit, each) for each in endings]
    left = [scope_of(each.kept) for each in endings if each.decision.event is not Event.RELEASE]
    followed = yield from follow(unit, [each.kept for each in endings], left)
    return moves, followed


def follow(
    unit: Unit, changed: Iterable[Kept], left: Iterable[Scope | None]
) -> Plan[tuple[Moved, ...]]:
    """Unblock or end the jobs that waited for those of *changed* that have ended, and so on.

    Then admit jobs to the slots of the keys of all these, and to those that were *left*.
    """
    followed: list[Moved] = []
    freed = list(left)
    ended = [kept for kept in changed if kept.state.is_terminal]
    while ended:  # each level ends jobs that had not ended, so there is a last one
        followed += yield from call_back(unit, ended)
        edges = yield from _waiting(unit, ended)
        if not edges:
            break
        jobs = {child.seq: child for child, _ in edges}
        ends = {each.seq: Ended(each.state, each.id, each.failure) for each in ended}
        rows = [(child.seq, _mode(child), child.missing, parent) for child, parent in edges]
        missing, failing = count_ended(rows, ends)
        for seq, count in missing.items():
            jobs[seq].missing = count
        unblocked = [seq for seq, count in missing.items() if count == MET]
        decisions = {**dict.fromkeys(unblocked), **failing}
        moves, scopes = _apply(unit, jobs, decisions)
        followed += moves
        freed += scopes
        ended = [jobs[seq] for seq in failing]
    admitted = yield from admit(unit, freed)
    return (*followed, *admitted)


def end_waiting(
    unit: Unit, jobs: Mapping[int, Kept], decisions: Mapping[int, Decision | None]
) -> Plan[tuple[Moved, ...]]:
    """End waiting jobs as decided, with their dependents; None unblocks a job."""
    moves, scopes = _apply(unit, jobs, decisions)
    failed = [jobs[seq] for seq, decision in decisions.items() if decision is not None]
    followed = yield from follow(unit, failed, scopes)
    return (*moves, *followed)


def _waiting(unit: Unit, ended: Sequence[Kept]) -> Plan[list[tuple[Kept, int]]]:
    """Return the jobs that wait for *ended*, in the order in which those ended."""
    parents = [each for each in ended if each.document.children]
    seqs = yield from unit.children(parents)
    found = yield from unit.jobs(seq for part in seqs for seq in part)
    return [
        (found[seq], parent.seq)
        for parent, part in zip(parents, seqs, strict=True)
        for seq in part
        if seq in found and found[seq].state is State.PENDING and found[seq].missing > 0
    ]


def _mode(kept: Kept) -> int:
    assert kept.document.waits is not None
    return kept.document.waits[0] or 0


def _apply(
    unit: Unit, jobs: Mapping[int, Kept], decisions: Mapping[int, Decision | None]
) -> tuple[list[Moved], list[Scope | None]]:
    """End or unblock waiting jobs; return their moves, and the keys that they now wait for."""
    moves: list[Moved] = []
    scopes: list[Scope | None] = []
    failing = [(seq, decision) for seq, decision in decisions.items() if decision is not None]
    for seq, decision in failing:
        moves.append(end(unit, KeptEnding(jobs[seq], decision)))
    due: list[Moved] = []
    later: list[Moved] = []
    for seq in (seq for seq, decision in decisions.items() if decision is None):
        kept = jobs[seq]
        document = kept.document
        kept.missing = 0
        document.updated_at = unit.now
        if document.run_at > unit.now:
            state = first_state(is_due=False)
            later.append(Moved(kept.id, kept.type, state, State.PENDING))
            kept.set_state(state)
            continue
        document.run_at = unit.now
        scope = scope_of(kept)
        if scope is not None:
            scopes.append(scope)
            continue
        state = first_state(is_due=True)
        document.scheduled_at = unit.now
        due.append(Moved(kept.id, kept.type, state, State.PENDING))
        kept.set_state(state)
    return [*moves, *due, *later], scopes


def call_back(unit: Unit, ended: Iterable[Kept]) -> Plan[list[Moved]]:
    """Store the webhook deliveries of those of *ended* that have a callback, as they end."""
    from fencepost.store.redis.jobs.enqueue import store_plain  # it ends jobs that never wait

    jobs: list[NewJob] = []
    for kept in sorted(ended, key=lambda each: each.seq):
        document = kept.document
        if document.callback_url is None:
            continue
        delivery = Delivery(
            job_id=kept.id,
            url=document.callback_url,
            state=kept.state,
            completed_at=from_us(document.completed_at or 0),
            attempt=document.attempt,
        )
        jobs.append(delivery_job(delivery, document.correlation_id))
    if not jobs:
        return []
    return [
        Moved(kept.id, kept.type, kept.state, State.PENDING)
        for kept in (yield from store_plain(unit, jobs))
    ]


def wait_again(unit: Unit, reopened: Kept) -> Plan[None]:
    """Let jobs that wait until all have ended wait for the reopened job again."""
    (seqs,) = yield from unit.children([reopened])
    for child in (yield from unit.jobs(seqs)).values():
        waits = child.document.waits
        is_waiting = child.state is State.PENDING and waits is not None and waits[1]
        if is_waiting and waits and waits[0] == MODE_NUMBER[Mode.ENDED]:
            child.missing += 1
