"""What a lease is made of: its number, its length, and what its end means."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.job.job import Category
from fencepost.core.job.outcome import LEASE_EXPIRED
from fencepost.core.job.policy import Policy
from fencepost.core.job.timeouts import deadline, next_version, run_out, ttl_of

instants = st.integers(0, 2**53)


@given(last=instants, now=instants)
def test_a_version_is_above_the_last_and_not_below_the_clock(last: int, now: int) -> None:
    """C43, S0-51, S0-73."""
    assert next_version(last, now) > last
    assert next_version(last, now) >= now
    assert next_version(last, now) in (last + 1, now)


@given(known=instants, now=instants, passed=st.integers(1, 2**40))
def test_a_version_that_was_lost_is_below_those_that_follow(
    known: int, now: int, passed: int
) -> None:
    """C43: the store has forgotten a claim, but its clock has gone on."""
    lost = next_version(min(known, now - 1), now)
    assert next_version(min(known, now - 1), now + passed) > lost


def test_a_lease_ends_with_its_timeout_and_a_grace() -> None:
    """C44."""
    assert deadline(Policy(timeout=2.5), 1_000, 0) == 2_501_000
    assert deadline(Policy(timeout=2.5), 1_000, 7) == 2_501_007


def test_a_jobs_own_length_goes_before_that_of_the_claim() -> None:
    """C3."""
    assert ttl_of(Policy(), 30.0) == 30.0
    assert ttl_of(Policy(lease_ttl=5.0), 30.0) == 5.0


def test_what_ran_out_was_lost_or_too_slow() -> None:
    """C8, C19, C44."""
    assert run_out(Policy(), is_overdue=False) == LEASE_EXPIRED
    failure = run_out(Policy(timeout=10.0), is_overdue=True).failure
    assert (failure.category, failure.code) == (Category.TIMEOUT, "execution_timeout")
    assert "10 s" in failure.message
