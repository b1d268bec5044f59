"""Every bound by name."""

from __future__ import annotations

import pytest

from fencepost.core import bounds
from fencepost.wire import bounds as wire_bounds

EVERY = vars(bounds) | vars(wire_bounds)
BOUNDS = {name: value for name, value in EVERY.items() if name.isupper()}


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_is_a_positive_number(name: str) -> None:
    """S2-38: a bound of nothing, or none, would be a defect."""
    assert isinstance(BOUNDS[name], int | float)
    assert not isinstance(BOUNDS[name], bool)
    assert 0 < BOUNDS[name] < float("inf")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KEY_LENGTH_MAX", 256),  # S1-6
        ("KEY_WINDOW_DEFAULT", 24 * 3600),  # S1-10
        ("EXECUTION_TIMEOUT_DEFAULT", 30 * 60),  # S1-38, C4
        ("LEASE_TTL_DEFAULT", 5 * 60),  # S1-39, C3
        ("WORKER_LEASE_TTL_DEFAULT", 30),  # S2-28, C3
        ("LEASE_TTL_MIN", 1),  # C3
        ("SUBMISSION_TIMEOUT_DEFAULT", 30),  # S1-40
        ("LIFETIME_DEFAULT", 7 * 24 * 3600),  # S1-41
        ("PAYLOAD_BYTES_DEFAULT", 1_000_000),  # S1-91
        ("PAYLOAD_BYTES_MAX", 16_000_000),  # S1-91
    ],
)
def test_a_bound_that_the_requirements_name_has_their_value(name: str, value: float) -> None:
    """S1-6, S1-10, S1-38..S1-41, S1-91, S2-28, C3, C4."""
    assert BOUNDS[name] == value


def test_no_default_is_beyond_its_maximum() -> None:
    """S1-91, C3."""
    assert bounds.PAYLOAD_BYTES_DEFAULT <= bounds.PAYLOAD_BYTES_MAX
    assert bounds.PAGE_DEFAULT <= bounds.PAGE_MAX
    assert bounds.CONCURRENCY_DEFAULT <= bounds.CONCURRENCY_MAX
    assert bounds.LEASE_TTL_MIN <= bounds.WORKER_LEASE_TTL_DEFAULT <= bounds.LEASE_TTL_DEFAULT
    assert bounds.WEIGHT_MAX <= bounds.WEIGHT_TOTAL_MAX


def test_every_time_fits_into_the_longest_duration() -> None:
    """S1-41."""
    times = [value for name, value in BOUNDS.items() if name.endswith(("TIMEOUT_DEFAULT", "TTL"))]
    assert max(*times, bounds.LIFETIME_DEFAULT, bounds.KEY_WINDOW_DEFAULT) <= bounds.DURATION_MAX
