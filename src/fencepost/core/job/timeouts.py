"""The times that bound a job: execution, lease, lifetime, submission, retention; lease versions.

Inside, times are in whole microseconds, as stores keep them. A job that falls due after its
lifetime could never run and is refused (C48); a retry or a snooze is cut short instead (C34).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from fencepost.core.access.bounds import AUDIT_KEPT
from fencepost.core.bounds import (
    EXECUTION_TIMEOUT_DEFAULT,
    LEASE_TTL_MIN,
    LIFETIME_DEFAULT,
    SUBMISSION_TIMEOUT_DEFAULT,
)
from fencepost.core.display import shown
from fencepost.core.job.failure import timed_out
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import LEASE_EXPIRED, Failed
from fencepost.core.job.policy import Policy
from fencepost.core.values.names import check_type
from fencepost.core.values.times import (
    Duration,
    check_instant,
    format_duration,
    from_us,
    parse_duration,
    seconds_to_us,
    to_us,
)
from fencepost.errors import ConfigurationError, InvalidJobError

EXECUTION_MIN = 0.001


@dataclass(frozen=True, slots=True, init=False)
class Timeouts:
    """System-wide times, in seconds. ``visibility`` is another name for ``lease_ttl`` (C3)."""

    execution: float
    lease_ttl: float | None
    """How long a lease lasts without a heartbeat; None: as long as the claim says."""
    lifetime: float
    submission: float

    def __init__(
        self,
        *,
        execution: Duration = EXECUTION_TIMEOUT_DEFAULT,
        lease_ttl: Duration | None = None,
        visibility: Duration | None = None,
        lifetime: Duration = LIFETIME_DEFAULT,
        submission: Duration = SUBMISSION_TIMEOUT_DEFAULT,
    ) -> None:
        if lease_ttl is not None and visibility is not None:
            raise ConfigurationError("lease_ttl and visibility are one setting; give one of them")
        set_ = object.__setattr__
        set_(self, "execution", parse_duration(execution, name="execution", minimum=EXECUTION_MIN))
        set_(self, "lease_ttl", parse_lease_ttl(lease_ttl if lease_ttl is not None else visibility))
        set_(self, "lifetime", parse_lifetime(lifetime))
        set_(self, "submission", parse_duration(submission, name="submission", minimum=0.001))

    def execution_for(self, requested: Duration | None) -> float:
        """Return the execution timeout of a task that asks for *requested*.

        A task may ask for less than the app allows; more is refused (S1-45).
        """
        if requested is None:
            return self.execution
        seconds = parse_duration(requested, name="timeout", minimum=EXECUTION_MIN)
        if seconds > self.execution:
            raise InvalidJobError(
                f"timeout of {format_duration(seconds)} is longer than the app's "
                f"{format_duration(self.execution)}; raise App(timeouts=Timeouts(execution=…))"
            )
        return seconds


def parse_lease_ttl(value: Duration | None) -> float | None:
    """Return a lease TTL in seconds, at least one second, or None."""
    if value is None:
        return None
    return parse_duration(value, name="lease_ttl", minimum=LEASE_TTL_MIN)


parse_lifetime = partial(parse_duration, name="lifetime", minimum=0.001)


def next_version(last: int, now: int) -> int:
    """Return the version of a new lease; *last* is the version before it (C43).

    Never below the store's clock: if a crash of the store loses a claim, and *last* with it, the
    lost number is in the past.
    """
    return max(last + 1, now)


def deadline(policy: Policy, started_at: int, grace: int) -> int:
    """Return when a lease expires at the latest, in spite of all heartbeats (C44)."""
    return started_at + seconds_to_us(policy.timeout) + grace


def ttl_of(policy: Policy, asked: float) -> float:
    """Return how long a lease lasts, in seconds: the job's policy goes before the claim."""
    return policy.lease_ttl or asked


def run_out(policy: Policy, *, is_overdue: bool) -> Failed:
    """Return the outcome of an attempt whose lease expired: a timeout if it was at the deadline."""
    return timed_out(policy.timeout) if is_overdue else LEASE_EXPIRED


def check_delay(delay: float, lifetime: float) -> None:
    """Raise InvalidJobError if a delay is as long as the lifetime, or longer."""
    if seconds_to_us(delay) >= seconds_to_us(lifetime):
        raise InvalidJobError(
            f"a delay of {delay:g} s reaches the end of the job's lifetime ({lifetime:g} s from "
            f"its submission), so it could never run; shorten it or give a longer lifetime="
        )


def check_due(job: NewJob, now: int) -> None:
    """Raise InvalidJobError if *job*, submitted at *now*, falls due after its lifetime."""
    if job.run_at is None:
        check_delay(job.delay, job.policy.lifetime)
        return
    ends = now + seconds_to_us(job.policy.lifetime)
    if to_us(job.run_at) >= ends:
        raise InvalidJobError(
            f"run_at {job.run_at.isoformat()} is not before the end of the job's lifetime, "
            f"{from_us(ends).isoformat()}, so it could never run; give an earlier run_at or a "
            f"longer lifetime="
        )


check_run_at = partial(
    check_instant,
    name="run_at",
    example="datetime.now(UTC) + timedelta(…), or use delay=",
    error=InvalidJobError,
)


DAY = 86_400.0


@dataclass(frozen=True, slots=True, init=False)
class Retention:
    """How long a job is kept after its end, by state, in seconds; failures are kept for longer."""

    completed: float
    cancelled: float
    failed: float
    dead_letter: float
    events: float
    """How long the record of a sent event is kept."""
    audit: float
    """How long entries of the audit log are kept; on PostgreSQL at least a week."""
    by_type: Mapping[str, Retention]
    """Other rules for some types; a task can have its own."""

    def __init__(
        self,
        *,
        completed: Duration = 7 * DAY,
        cancelled: Duration = 7 * DAY,
        failed: Duration = 90 * DAY,
        dead_letter: Duration = 90 * DAY,
        events: Duration = 7 * DAY,
        audit: Duration = AUDIT_KEPT,
        by_type: Mapping[str, Retention] | None = None,
    ) -> None:
        durations = {
            "completed": completed,
            "cancelled": cancelled,
            "failed": failed,
            "dead_letter": dead_letter,
            "events": events,
            "audit": audit,
        }
        for name, value in durations.items():
            object.__setattr__(self, name, parse_duration(value, name=name))
        object.__setattr__(self, "by_type", _check_types(by_type or {}))

    def with_types(self, by_type: Mapping[str, Retention]) -> Retention:
        """Return the same with rules for more types; present rules stay."""
        return replace(self, by_type={**by_type, **self.by_type})

    def by_state(self) -> dict[State, float]:
        """Return the seconds to keep each terminal state."""
        return {state: getattr(self, state.value) for state in State if state.is_terminal}


def check_retention(value: object) -> Retention:
    """Return *value* if it is one, or raise ConfigurationError."""
    if not isinstance(value, Retention):
        raise ConfigurationError(f"retention must be a Retention(…), got {shown(value)}")
    return value


def _check_types(by_type: Mapping[str, Retention]) -> dict[str, Retention]:
    rules = {check_type(type_): check_retention(rule) for type_, rule in by_type.items()}
    for type_, rule in rules.items():
        if rule.by_type:
            raise ConfigurationError(f"the retention of type {type_!r} cannot name types again")
    return rules
