"""Why a job is where it is, in words that tell an operator what to do."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.crypto.envelope import shown_text
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.failure import UNREADABLE
from fencepost.core.job.job import Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.limits.rates import Rate
from fencepost.core.values.duration import format_duration
from fencepost.core.webhooks.delivery import DELIVERY_TYPE


class Reason(msgspec.Struct, frozen=True):
    """One thing that keeps a job where it is, or that brought it there."""

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
    rate: Rate | None = None
    rate_opens_at: datetime | None = None
    """When a job of the type can start again; None if one can now."""
    jobs_ahead: int = 0
    """Claimable jobs of the same queue and type that come first; counted up to a bound."""
    has_worker: bool = True
    """True when a live worker serves this type on this queue."""
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
        f"{limit_of(job.policy)} jobs under way; it waits for its turn",
    )


SHOWN_DEPENDENCIES = 3


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
    if job.failure is not None and job.failure.culprit is not None:
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


def _waiting_for_time(situation: Situation) -> list[Reason]:
    job = situation.job
    left = format_duration(round(max((job.run_at - situation.now).total_seconds(), 0.0), 1))
    at = f"{job.run_at:%Y-%m-%d %H:%M:%S} UTC (in {left})"
    if job.state is State.DELAYED:
        return [Reason("delayed", f"delayed until {at}")]
    if job.state is State.RETRYING and job.failure and job.failure.code == UNREADABLE:
        return [
            Reason(
                "unreadable_payload",
                f"the last worker could not read its payload: {_message(job)}; not counted, it "
                f"waits for a worker of a version that can, until {at}",
            )
        ]
    if job.state is State.RETRYING:
        cause = f" after: {_message(job)}" if job.failure else ""
        return [
            Reason(
                "backing_off",
                f"attempt {job.attempt} of {job.max_attempts} failed{cause}; tried again at {at}",
            )
        ]
    return []


def _obstacles(situation: Situation) -> list[Reason]:
    job = situation.job
    reasons = []
    if situation.is_type_paused:
        reasons.append(
            Reason(
                "type_paused",
                f"type {job.type!r} is paused; `fencepost types resume {job.type}`",
            )
        )
    if situation.is_queue_paused:
        reasons.append(
            Reason(
                "queue_paused",
                f"queue {job.queue!r} is paused; `fencepost queues resume {job.queue}`",
            )
        )
    if situation.queue_limit is not None and situation.queue_running >= situation.queue_limit:
        reasons.append(
            Reason(
                "queue_limit",
                f"queue {job.queue!r} runs {situation.queue_running} of at most "
                f"{situation.queue_limit} jobs; it waits for a slot",
            )
        )
    if situation.app_limit is not None and situation.app_running >= situation.app_limit:
        reasons.append(
            Reason(
                "app_limit",
                f"{situation.app_running} of at most {situation.app_limit} jobs run in all; "
                f"it waits for a slot",
            )
        )
    if situation.rate is not None and situation.rate_opens_at is not None:
        reasons.append(_rate_limited(situation.rate, situation.rate_opens_at, situation))
    if not situation.has_worker:
        reasons.append(Reason("no_worker", _no_worker(job)))
    return reasons


def _rate_limited(rate: Rate, opens_at: datetime, situation: Situation) -> Reason:
    left = max((opens_at - situation.now).total_seconds(), 0.0)
    return Reason(
        "rate_limited",
        f"type {situation.job.type!r} starts at most {rate.shown}; the next can start in "
        f"{format_duration(round(left, 1) or round(left, 3))}",
    )


def _no_worker(job: Job) -> str:
    if job.type == DELIVERY_TYPE:
        return (
            f"no live worker delivers webhooks: start `fencepost worker APP` for an app that has "
            f"webhook secrets, without --queue or with --queue {job.queue}"
        )
    return (
        f"no live worker serves type {job.type!r} on queue {job.queue!r}; start one with "
        f"`fencepost worker APP`"
    )


def _in_line(situation: Situation) -> Reason:
    if situation.jobs_ahead:
        return Reason("in_line", f"claimable; {situation.jobs_ahead} jobs of its type come first")
    return Reason("next", "claimable; it is next in line for its type")
