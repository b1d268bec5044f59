"""Durations as users write them."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import DURATION_MAX
from fencepost.core.values.times import UNITS, format_duration, parse_duration
from fencepost.errors import ConfigurationError, InvalidDurationError, InvalidJobError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (90, 90.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
        ("0s", 0.0),
        ("250ms", 0.25),
        ("90s", 90.0),
        ("10m", 600.0),
        ("24h", 86_400.0),
        ("7d", 604_800.0),
        ("2w", 1_209_600.0),
        ("1.5h", 5_400.0),
        ("1h30m", 5_400.0),
        ("1m1ms", 60.001),
        ("  1h 30 m ", 5_400.0),
        (DURATION_MAX, DURATION_MAX),
        ("3650d", DURATION_MAX),
    ],
)
def test_seconds_timedeltas_and_text_are_read(value: Any, seconds: float) -> None:
    """S1-46, S1-49, S1-50."""
    result = parse_duration(value)
    assert result == seconds
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        *(
            -1,
            -0.001,
            timedelta(seconds=-1),
            DURATION_MAX + 1,
            timedelta.max,
            10**400,
            pytest.param(10**5_000, id="huge"),
        ),
        *(math.nan, math.inf, -math.inf, None, True, b"1s", [], 1j, object()),
        *("", " ", "1", "s", "-1s", "+1s", "1e3s", "1,5s", "1.s", ".5s", "1S", "1y", "1m s"),
        *("1s x", "٣s", "1s\0", "\ud800", "9" * 63 + "s", "1s" * 33, "nan", "infs"),
    ],
)
def test_what_is_negative_absurd_or_unreadable_is_refused(value: Any) -> None:
    """S1-46."""
    with pytest.raises(InvalidDurationError, match="my_delay") as caught:
        parse_duration(value, name="my_delay")
    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, InvalidJobError)
    assert len(str(caught.value)) < 500


def test_the_bounds_are_inclusive_and_named_in_the_refusal() -> None:
    """S1-46."""
    assert parse_duration(1, minimum=1.0, maximum=2.0) == 1.0
    assert parse_duration(2, minimum=1.0, maximum=2.0) == 2.0
    with pytest.raises(InvalidDurationError, match=r"between 1s and 2s, got '3s'"):
        parse_duration("3s", minimum=1.0, maximum=2.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.001, "1ms"),
        (0.25, "250ms"),
        (1e-9, "0ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.9999, "1m"),
        (90, "1m30s"),
        (3600, "1h"),
        (5_400.25, "1h30m0.25s"),
        (604_800, "7d"),
        (1_234_567.891, "14d6h56m7.891s"),
        (DURATION_MAX, "3650d"),
    ],
)
def test_a_duration_is_shown_briefly(seconds: float, text: str) -> None:
    """S1-46."""
    assert format_duration(seconds) == text


@given(st.floats(0, DURATION_MAX) | st.floats(0, 2))
def test_what_is_shown_can_be_read_back_to_the_millisecond(seconds: float) -> None:
    """S1-46."""
    assert parse_duration(format_duration(seconds), maximum=math.inf) == pytest.approx(
        seconds, rel=0, abs=0.001_1
    )


@given(
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4)
)
def test_the_parts_of_a_text_add_up(parts: list[tuple[int, str]]) -> None:
    """S1-46."""
    text = " ".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == pytest.approx(sum(n * UNITS[unit] for n, unit in parts))


@given(
    st.text()
    | st.from_regex(r"[0-9.]+ ?(ms|s|m|h|d|w|x)?", fullmatch=True)
    | st.floats()
    | st.integers()
    | st.timedeltas()
    | st.none()
    | st.binary()
)
def test_anything_is_either_seconds_within_bounds_or_refused(value: Any) -> None:
    """S1-46."""
    try:
        seconds = parse_duration(value)
    except InvalidDurationError:
        return
    assert 0 <= seconds <= DURATION_MAX
