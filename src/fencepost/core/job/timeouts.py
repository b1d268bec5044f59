"""The four times that bound a job: execution, lease, lifetime and submission."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.core.bounds import (
    DURATION_MAX,
    EXECUTION_TIMEOUT_DEFAULT,
    LEASE_TTL_MIN,
    LIFETIME_DEFAULT,
    SUBMISSION_TIMEOUT_DEFAULT,
)
from fencepost.core.values.duration import Duration, format_duration, parse_duration
from fencepost.errors import ConfigurationError, InvalidJobError

EXECUTION_MIN = 0.001


@dataclass(frozen=True, slots=True, init=False)
class Timeouts:
    """System-wide times, in seconds. ``visibility`` is another name for ``lease_ttl`` (C3)."""

    execution: float
    lease_ttl: float | None
    """How long a lease lasts without a heartbeat; ``None`` leaves it to the claimer."""
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


def parse_lifetime(value: Duration) -> float:
    """Return a lifetime in seconds."""
    return parse_duration(value, name="lifetime", minimum=0.001, maximum=DURATION_MAX)
