"""What a lease is made of: the number that fences it, how long it lasts, and what its end means.

Times are in whole microseconds, as stores keep them.
"""

from __future__ import annotations

from fencepost.core.job.failure import timed_out
from fencepost.core.job.outcome import LEASE_EXPIRED, Failed
from fencepost.core.job.policy import Policy
from fencepost.core.values.instants import seconds_to_us


def next_version(last: int, now: int) -> int:
    """Return the version of a lease given out at *now* to a job whose last one was *last* (C43).

    Never below the store's clock: if a crash of the store takes a claim back, and *last* with it,
    the number that was lost lies in the past. It rises, but not by one.
    """
    return max(last + 1, now)


def deadline(policy: Policy, started_at: int, grace: int) -> int:
    """Return when a lease runs out at the latest, whatever is done to extend it (C44)."""
    return started_at + seconds_to_us(policy.timeout) + grace


def ttl_of(policy: Policy, asked: float) -> float:
    """Return how long a lease lasts, in seconds: a job's own wish goes before the claim's."""
    return policy.lease_ttl or asked


def run_out(policy: Policy, *, is_overdue: bool) -> Failed:
    """Return how an attempt ended whose lease ran out: too slow if that was at its deadline."""
    return timed_out(policy.timeout) if is_overdue else LEASE_EXPIRED
