"""Five priorities, the lower number first."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Priority, parse_priority
from fencepost.errors import InvalidJobError

LEVELS = {"critical": 0, "high": 1, "normal": 2, "low": 3, "bulk": 4}


def test_there_are_five_levels_and_the_most_urgent_has_the_lowest_number() -> None:
    """S1-31, S1-33, C12."""
    assert {level.name.lower(): level.value for level in Priority} == LEVELS
    assert min(Priority) is Priority.CRITICAL


def test_a_job_is_normal_unless_it_says_otherwise() -> None:
    """S1-32."""
    assert NewJob(type="mail").priority is Priority.NORMAL


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_is_known_by_number_name_and_member(name: str) -> None:
    """S1-31."""
    level = Priority(LEVELS[name])
    assert parse_priority(LEVELS[name]) is level
    assert parse_priority(name) is level
    assert parse_priority(name.upper()) is level
    assert parse_priority(level) is level


@pytest.mark.parametrize(
    "value",
    [
        -1,
        5,
        pytest.param(10**5_000, id="huge"),
        2.0,
        True,
        False,
        None,
        "",
        "urgent",
        "2",
        "hıgh",
        b"high",
        [],
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    """S1-31."""
    with pytest.raises(
        InvalidJobError, match='priority must be "critical", "high", "normal", "low" or "bulk"'
    ):
        parse_priority(value)


@given(st.integers() | st.text() | st.floats() | st.none() | st.booleans() | st.binary())
def test_only_a_priority_or_an_invalid_job_error_comes_out(value: Any) -> None:
    """S1-31."""
    with suppress(InvalidJobError):
        assert isinstance(parse_priority(value), Priority)
