"""What can happen to a stored job, from its claim to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from msgspec.structs import replace

from fencepost.core.flows.dependents import judge, propagated, step
from fencepost.core.job.job import AttemptOutcome, Category, ClaimedJob, Failure
from fencepost.core.job.lease import deadline, next_version, run_out, ttl_of
from fencepost.core.job.lifecycle import DEAD, Event, State, advance
from fencepost.core.job.outcome import Decision, decide
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.replies import Moved
from fencepost.store.memory.engine.line import Line
from fencepost.store.memory.jobs.record import Changes, Record
from fencepost.store.memory.jobs.rows import attempt_of, claimed_job_of
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.concurrency import admit, held
from fencepost.store.memory.records.webhooks import call_back

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")
LIFETIME_EXCEEDED = Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded")


def lease(
    jobs: JobTable, record: Record, request: ClaimRequest, *, token: str, now: int
) -> ClaimedJob:
    """Start an attempt under a new lease. It counts from here on, even if the worker dies."""
    lease_ttl = ttl_of(record.policy, request.lease_ttl)
    latest = deadline(record.policy, now, seconds_to_us(request.timeout_grace))
    last_version = record.lease_version
    jobs.change(
        record,
        state=advance(record.state, Event.CLAIM),
        attempt=record.attempt + 1,
        lease_version=next_version(last_version, now),
        token=token,
        worker=request.worker,
        lease_expires_at=min(now + seconds_to_us(lease_ttl), latest),
        lease_ttl=lease_ttl,
        deadline=latest,
        started_at=now,
        updated_at=now,
        progress=None,
    )
    return claimed_job_of(record, lease_ttl, last_version)


def apply(
    jobs: JobTable, record: Record, decision: Decision, *, now: int, settled_token: str | None
) -> tuple[Moved, ...]:
    """End the running attempt as *decision* says; return what became of those that waited."""
    state = advance(record.state, decision.event)
    changes = _effects(record, decision, now)
    if not decision.is_counted:
        changes["attempt"] = record.attempt - 1
    if settled_token is not None:
        changes["settled_token"] = settled_token
    _end_attempt(jobs, record, decision.outcome, decision.failure, now)
    return _enter(jobs, record, state, changes, now)


def _effects(record: Record, decision: Decision, now: int) -> Changes:
    match decision.event:
        case Event.SUCCEED:
            return {"result": decision.result, "failure": None}
        case Event.REJECT | Event.EXHAUST:
            assert decision.failure is not None
            return {"failure": decision.failure}
        case Event.RETRY:
            return {"failure": decision.failure, "run_at": _due(record, decision.delay, now)}
        case Event.SNOOZE:
            return {"run_at": _due(record, decision.delay, now)}
        case _:
            assert decision.event is Event.RELEASE
            return {"scheduled_at": now}


def _due(record: Record, delay: float, now: int) -> int:
    """Return when to try again; past its lifetime a job has nothing to wait for (C34)."""
    return min(now + seconds_to_us(delay), record.expires_at)


def cancel(jobs: JobTable, record: Record, now: int) -> Moved:
    """Cancel a live job; a worker that runs it has lost its lease (C20)."""
    return _end(jobs, record, Event.CANCEL, CANCELLED, AttemptOutcome.CANCELLED, now)


def recover(jobs: JobTable, limit: int, rng: Random, now: int) -> list[Moved]:
    """Take back jobs from leases that ran out, by the same rules as any failure (S4-8)."""

    def take_back(record: Record) -> Moved:
        is_overdue = record.lease_expires_at == record.deadline
        decision = decide(record, run_out(record.policy, is_overdue=is_overdue), rng)
        followed = apply(jobs, record, decision, now=now, settled_token=None)
        return Moved(record.id, record.type, record.state, State.RUNNING, followed)

    moved = [take_back(record) for record in _up_to(now, jobs, jobs.leases, limit)]
    return with_admitted(moved, admit(jobs, now))


def expire(jobs: JobTable, limit: int, now: int) -> list[Moved]:
    """Dead-letter live jobs past their lifetime."""
    due = (jobs.roll[seq] for seq in jobs.lifetimes.before((now + 1,)))
    outlived = sorted(due, key=lambda record: (record.expires_at, record.seq))[: max(limit, 0)]

    def end(record: Record) -> Moved:
        return _end(jobs, record, Event.EXPIRE, LIFETIME_EXCEEDED, AttemptOutcome.FAILED, now)

    return with_admitted(end_each(outlived, end), admit(jobs, now))


def end_each(records: Sequence[Record], end: Callable[[Record], Moved]) -> list[Moved]:
    """End *records*, none of them on account of another, and answer in their order.

    So those come first that wait for others.
    """
    deepest_first = sorted(records, key=lambda record: -depth_of(record))
    moved = {record.seq: end(record) for record in deepest_first}
    return [moved[record.seq] for record in records]


def depth_of(record: Record) -> int:
    """Return the number of jobs on the longest way to *record*, itself included."""
    return 1 if record.waits is None else record.waits.depth


def promote(jobs: JobTable, limit: int, now: int) -> list[Moved]:
    """Make jobs claimable whose time has come, as far as their concurrency keys allow."""

    def make_ready(record: Record) -> Moved:
        was = record.state
        ready: Changes = {"state": advance(was, Event.READY), "scheduled_at": now}
        ready["updated_at"] = now
        jobs.change(record, **held(record, ready, Event.HOLD))
        return Moved(record.id, record.type, record.state, was)

    jobs.slots.recall()
    moved = [make_ready(record) for record in _up_to(now, jobs, jobs.due, limit)]
    return with_admitted(moved, admit(jobs, now))


def _up_to(now: int, jobs: JobTable, line: Line, limit: int) -> Iterator[Record]:
    """Yield up to *limit* jobs whose time in *line* has come; each must leave before the next."""
    for _ in range(limit):
        entry = line.first()
        if entry is None or entry[0] > now:
            return
        yield jobs.roll[entry[-1]]


def _end(
    jobs: JobTable,
    record: Record,
    event: Event,
    failure: Failure,
    outcome: AttemptOutcome,
    now: int,
) -> Moved:
    """End a live job from outside, whatever it was doing."""
    was = record.state
    state = advance(was, event)
    if was is State.RUNNING:
        _end_attempt(jobs, record, outcome, failure, now)
    followed = _enter(jobs, record, state, {"failure": failure}, now)
    return Moved(record.id, record.type, state, was, followed)


def _end_attempt(
    jobs: JobTable, record: Record, outcome: AttemptOutcome, failure: Failure | None, now: int
) -> None:
    jobs.end_attempt(record, attempt_of(record, outcome, ended_at=now, failure=failure))


def _enter(
    jobs: JobTable, record: Record, state: State, changes: Changes, now: int
) -> tuple[Moved, ...]:
    """Put a job that nobody runs any more into *state*; let go those that waited for it."""
    if state.is_terminal:
        changes["completed_at"] = now
    if state in DEAD:
        changes["dead_number"] = jobs.next_death()
    changes.update(
        {
            "state": state,
            "updated_at": now,
            "token": None,
            "worker": None,
            "lease_expires_at": None,
            "lease_ttl": None,
            "deadline": None,
        }
    )
    jobs.change(record, **changes)
    if not state.is_terminal:
        return ()
    return (*call_back(jobs, record, now), *follow(jobs, record, now))


def follow(jobs: JobTable, ended: Record, now: int) -> Iterator[Moved]:
    """Let go, or end, the jobs that waited for one that has ended, and those behind them."""
    for child in jobs.children(ended):
        if not child.is_waiting_for_others:
            continue
        assert child.waits is not None
        missing, doom = step(child.waits.mode, child.waits.missing, ended.state)
        if doom is not None:
            decision = propagated(ended.state, ended.failure, ended.id)
            moved = end_with(jobs, child, decision, now)
            yield replace(moved, followed=())
            yield from moved.followed
        elif missing:
            jobs.change(child, waits=replace(child.waits, missing=missing))
        else:
            yield from let_go(jobs, child, now)


def end_with(jobs: JobTable, record: Record, decision: Decision, now: int) -> Moved:
    """End a waiting job on account of another, as *decision* says."""
    assert decision.failure is not None
    return _end(jobs, record, decision.event, decision.failure, decision.outcome, now)


def let_go(jobs: JobTable, record: Record, now: int) -> tuple[Moved, ...]:
    """Let a job that waited for others take its place in line, or wait for its time or its key.

    Return that it moved; nothing if it goes on waiting, now for its key.
    """
    assert record.waits is not None
    state = advance(State.PENDING, Event.READY if record.run_at <= now else Event.DELAY)
    if state is State.SCHEDULED and record.concurrency_key is not None:
        state = State.PENDING
    changes: Changes = {
        "state": state,
        "run_at": max(record.run_at, now),
        "updated_at": now,
        "waits": replace(record.waits, missing=0),
    }
    if state is State.SCHEDULED:
        changes["scheduled_at"] = now
    jobs.change(record, **changes)
    return () if record.is_held else (Moved(record.id, record.type, state, State.PENDING),)


def judge_again(jobs: JobTable, record: Record, now: int) -> None:
    """Have a job that waits for others do what their states now say."""
    assert record.waits is not None
    parents = jobs.parents(record)
    missing, doom = judge(record.waits.mode, [parent.state for parent in parents])
    if doom is not None:
        culprit = parents[doom]
        end_with(jobs, record, propagated(culprit.state, culprit.failure, culprit.id), now)
    elif missing:
        jobs.change(record, waits=replace(record.waits, missing=missing))
    else:
        let_go(jobs, record, now)
