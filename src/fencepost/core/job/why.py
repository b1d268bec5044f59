"""Why a job is in its state, in words that help an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import starmap

import msgspec

from fencepost.core.bounds import ANNOUNCE_INTERVAL
from fencepost.core.encryption import shown_text
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.failure import UNREADABLE
from fencepost.core.job.job import Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.limits.type_limits import NO_LIMITS, NO_USAGE, TypeLimits, TypeUsage
from fencepost.core.stats.overview import WorkerInfo, explain_unserved
from fencepost.core.values.times import format_duration
from fencepost.core.webhooks.delivery import DELIVERY_TYPE


class Reason(msgspec.Struct, frozen=True):
    """One reason for the state of a job."""

    code: str
    text: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows about a job's surroundings at one moment."""

    job: Job
    now: datetime
    is_type_paused: bool = False
    is_queue_paused: bool = False
    queue_limit: int | None = None
    queue_running: int = 0
    app_limit: int | None = None
    app_running: int = 0
    limits: TypeLimits = NO_LIMITS
    """Those of its type."""
    usage: TypeUsage = NO_USAGE
    jobs_ahead: int = 0
    """Claimable jobs of the same queue and type before it; counted up to a bound."""
    workers: Sequence[WorkerInfo] = ()
    """The live ones."""
    dependencies: tuple[Dependency, ...] = ()
    """What a PENDING job waits for, in order."""
    key_active: int = 0
    """Jobs of its type and concurrency key that are claimable or running."""


def explain(situation: Situation) -> list[Reason]:
    """Return every reason, the most decisive first."""
    job = situation.job
    if job.state.is_terminal:
        return [_explain_end(job)]
    if job.state is State.RUNNING:
        return [_explain_running(situation)]
    if job.is_held:
        return [_explain_held(situation)]
    if job.state is State.PENDING:
        return [_explain_pending(situation)]
    return [*_waiting_for_time(situation), *_obstacles(situation)] or [_in_line(situation)]


def _explain_held(situation: Situation) -> Reason:
    job = situation.job
    return Reason(
        "pending_key",
        f"key {job.concurrency_key!r} of type {job.type!r} has {situation.key_active} of at most "
        f"{limit_of(job.policy)} active jobs; it waits for a slot",
    )


SHOWN_DEPENDENCIES = 3
SHOWN_WORKERS = 3


def _explain_pending(situation: Situation) -> Reason:
    waits = situation.job.waits
    open_ = [each for each in situation.dependencies if not each.state.is_terminal]
    shown = ", ".join(
        f"{each.node or each.type} {each.job_id} ({each.state})"
        for each in open_[:SHOWN_DEPENDENCIES]
    )
    rest = f" and {len(open_) - SHOWN_DEPENDENCIES} more" if len(open_) > SHOWN_DEPENDENCIES else ""
    if waits is not None and waits.mode is Mode.ANY:
        return Reason("pending", f"runs when any one of these has ended: {shown}{rest}")
    how = "completed" if waits is None or waits.mode is Mode.ALL else "ended"
    return Reason("pending", f"runs when these have {how}: {shown}{rest}")


def _explain_end(job: Job) -> Reason:
    if job.state is State.COMPLETED:
        return Reason("completed", f"completed on attempt {job.attempt}")
    if job.state is State.CANCELLED:
        return Reason("cancelled", "cancelled; `retry` runs it again")
    detail = f"{job.failure.category}: {_message(job)}" if job.failure else "no reason stored"
    if job.failure is not None and job.failure.failed_dependency is not None:
        return Reason("dependency_failed", f"never ran: {_message(job)}")
    if job.state is State.FAILED:
        return Reason("failed", f"failed for good on attempt {job.attempt}; {detail}")
    return Reason(
        "dead_letter",
        f"dead letter after {job.attempt} of {job.max_attempts} attempts; {detail}",
    )


def _message(job: Job) -> str:
    return "" if job.failure is None else shown_text(job.failure.message)


def _explain_running(situation: Situation) -> Reason:
    job = situation.job
    lease = job.lease
    if lease is None:
        return Reason("running", f"attempt {job.attempt} is running")
    if lease.expired:
        return Reason(
            "lease_expired",
            f"worker {lease.worker} was lost: its lease ran out at {lease.expires_at:%H:%M:%S} "
            f"UTC; the next claim or recover takes the job back",
        )
    left = (lease.expires_at - situation.now).total_seconds()
    return Reason(
        "running",
        f"attempt {job.attempt} of {job.max_attempts} runs on {lease.worker}; "
        f"its lease has {format_duration(round(left, 1))} left",
    )


def _waiting_for_time(situation: Situation) -> Iterator[Reason]:
    job = situation.job
    left = format_duration(round(max((job.run_at - situation.now).total_seconds(), 0.0), 1))
    at = f"{job.run_at:%Y-%m-%d %H:%M:%S} UTC (in {left})"
    if job.state is State.DELAYED:
        yield Reason("delayed", f"delayed until {at}")
    elif job.state is State.RETRYING and job.failure and job.failure.code == UNREADABLE:
        yield Reason(
            "unreadable_payload",
            f"the last worker could not read its payload: {_message(job)}; not counted, it "
            f"waits for a worker of a version that can, until {at}",
        )
    elif job.state is State.RETRYING:
        cause = f" after: {_message(job)}" if job.failure else ""
        yield Reason(
            "backing_off",
            f"attempt {job.attempt} of {job.max_attempts} failed{cause}; tried again at {at}",
        )


def _obstacles(situation: Situation) -> Iterator[Reason]:
    job = situation.job
    if situation.is_type_paused:
        resume = f"`fencepost types resume {job.type}`"
        yield Reason("type_paused", f"type {job.type!r} is paused; {resume}")
    if situation.is_queue_paused:
        resume = f"`fencepost queues resume {job.queue}`"
        yield Reason("queue_paused", f"queue {job.queue!r} is paused; {resume}")
    running, limit = situation.queue_running, situation.queue_limit
    if limit is not None and running >= limit:
        text = f"queue {job.queue!r} runs {running} of at most {limit} jobs; it waits for a slot"
        yield Reason("queue_limit", text)
    running, limit = situation.app_running, situation.app_limit
    if limit is not None and running >= limit:
        text = f"{running} of at most {limit} jobs run in all; it waits for a slot"
        yield Reason("app_limit", text)
    limits = situation.limits
    yield from starmap(Reason, limits.obstacles(job.type, situation.usage, situation.now))
    unserved = explain_unserved(job.type, job.queue, situation.workers)
    if unserved is not None and job.type == DELIVERY_TYPE:
        unserved = (
            f"no live worker delivers webhooks: start `fencepost worker APP` for an app that has "
            f"webhook secrets, without --queue or with --queue {job.queue}"
        )
    if unserved is not None:
        yield Reason("no_worker", unserved)


def _in_line(situation: Situation) -> Reason:
    silent = _silence(situation)
    if situation.jobs_ahead:
        count = situation.jobs_ahead
        first = "1 job of its type comes" if count == 1 else f"{count} jobs of its type come"
        return Reason("in_line", f"claimable; {first} first{silent}")
    return Reason("next", f"claimable; it is next in line for its type{silent}")


def _silence(situation: Situation) -> str:
    """Return that no worker which serves this job was heard from of late.

    One that was killed counts as live for a minute: without this, nothing would seem wrong.
    """
    job = situation.job
    serving = [each for each in situation.workers if each.serves(job.type, job.queue)]
    seen = [each.seen_at for each in serving if each.seen_at is not None]
    silence = (situation.now - max(seen)).total_seconds() if seen else 0.0
    if silence < 2 * ANNOUNCE_INTERVAL:
        return ""
    return (
        f"; but its workers ({', '.join(each.id for each in serving[:SHOWN_WORKERS])}) have been "
        f"silent for {format_duration(round(silence))}: have they died? `fencepost worker APP` "
        f"starts one"
    )
