"""A job that would fall due when its lifetime is over could never run: it is refused (C48).

Whoever waits for a retry or snoozes is cut short instead (C34): that job has been accepted.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fencepost.core.display import shown
from fencepost.core.job.job import NewJob
from fencepost.core.values.instants import from_us, seconds_to_us, to_us
from fencepost.errors import InvalidJobError


def check_delay(delay: float, lifetime: float) -> None:
    """Raise InvalidJobError if a job that is delayed by so much outlives its lifetime before."""
    if seconds_to_us(delay) >= seconds_to_us(lifetime):
        raise InvalidJobError(
            f"a delay of {delay:g} s reaches the end of the job's lifetime ({lifetime:g} s from "
            f"its submission), so it could never run; shorten it or give a longer lifetime="
        )


def check_due(job: NewJob, now: int) -> None:
    """Raise InvalidJobError if *job*, submitted at *now*, falls due at its end or later."""
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


def check_run_at(value: datetime) -> datetime:
    """Return a time of a caller in UTC, or raise InvalidJobError."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidJobError(
            f"run_at must be a datetime with a time zone, got {shown(value)}; "
            f"write datetime.now(UTC) + timedelta(…), or use delay="
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        # Stored, it could not be read again, by nobody who lists jobs.
        raise InvalidJobError(f"run_at lies outside of the calendar in UTC: {value!r}") from None
