"""The four times that bound a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import DURATION_MAX
from fencepost.core.job.timeouts import Timeouts, parse_lease_ttl, parse_lifetime
from fencepost.errors import (
    ConfigurationError,
    FencepostError,
    InvalidDurationError,
    InvalidJobError,
)


def test_the_defaults_are_those_of_the_job_model() -> None:
    """S1-38, S1-40, S1-41, C3, C4; the lease is left to whoever claims."""
    times = Timeouts()
    assert times.execution == 30 * 60
    assert times.lease_ttl is None
    assert times.lifetime == 7 * 24 * 3600
    assert times.submission == 30


def test_each_time_is_set_by_itself_and_in_any_form() -> None:
    """S1-46, S0-89, S4-10."""
    times = Timeouts(execution="5m", lease_ttl=30, lifetime=timedelta(days=1), submission="500ms")
    assert times.execution == 300
    assert times.lease_ttl == 30
    assert times.lifetime == 86_400
    assert times.submission == 0.5


def test_visibility_is_another_name_for_the_lease() -> None:
    """S1-39, C3."""
    assert Timeouts(visibility="5m") == Timeouts(lease_ttl=300)
    with pytest.raises(ConfigurationError, match="one setting"):
        Timeouts(visibility=30, lease_ttl=30)


@pytest.mark.parametrize(("value", "seconds"), [(None, None), (1, 1.0), ("5s", 5.0)])
def test_a_lease_lasts_a_second_at_least(value: Any, seconds: float | None) -> None:
    """C3, S0-75."""
    assert parse_lease_ttl(value) == seconds


@pytest.mark.parametrize(
    "options",
    [
        {"lease_ttl": 0.999},
        {"visibility": 0},
        {"execution": 0},
        {"lifetime": 0},
        {"submission": 0},
        {"execution": -1},
        {"lifetime": DURATION_MAX + 1},
        {"lifetime": "never"},
        {"submission": None},
    ],
)
def test_a_time_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    """S1-46, C3."""
    with pytest.raises(InvalidDurationError):
        Timeouts(**options)


def test_a_task_without_a_timeout_has_that_of_the_app() -> None:
    """S1-38, S1-45."""
    assert Timeouts(execution=60).execution_for(None) == 60


@pytest.mark.parametrize(("asked", "seconds"), [("10s", 10.0), (60, 60.0)])
def test_a_task_may_ask_for_a_shorter_timeout(asked: Any, seconds: float) -> None:
    """S1-45."""
    assert Timeouts(execution=60).execution_for(asked) == seconds


def test_a_longer_timeout_than_the_apps_is_refused_with_both_times() -> None:
    """S1-45."""
    with pytest.raises(InvalidJobError, match="of 1m1s is longer than the app's 1m;"):
        Timeouts(execution=60).execution_for("61s")


@pytest.mark.parametrize("asked", [0, -1, "x", True])
def test_a_timeout_that_makes_no_sense_is_refused(asked: Any) -> None:
    """S1-45."""
    with pytest.raises(InvalidDurationError, match="timeout"):
        Timeouts().execution_for(asked)


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.timedeltas())
def test_only_seconds_within_bounds_or_fencepost_errors_come_out(value: Any) -> None:
    """S1-41, S1-46, C3."""
    for parse, least in ((parse_lease_ttl, 1.0), (parse_lifetime, 0.001)):
        try:
            seconds = parse(value)
        except FencepostError:
            continue
        assert seconds is None or least <= seconds <= DURATION_MAX
