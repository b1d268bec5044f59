"""Values in messages and on screens: those that were refused, URLs, times, bars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencepost.core.bounds import SHOWN_LENGTH_MAX
from fencepost.core.display import bar, in_ascii, relative, shown, shown_url, sparkline


@pytest.mark.parametrize("value", [None, 5, "text", b"\0", [1, 2]])
def test_a_short_value_is_shown_as_it_is(value: Any) -> None:
    """S1-105: an error says what was refused."""
    assert shown(value) == repr(value)


def test_a_long_value_is_cut() -> None:
    """S1-95: a message cannot carry a megabyte of somebody's data into a log."""
    assert len(shown("x" * 1_000_000)) == SHOWN_LENGTH_MAX + 1
    assert shown("x" * 1_000_000).endswith("…")


def test_a_number_too_long_to_write_is_shown_by_its_type() -> None:
    """S1-31: Python refuses to write more than 4,300 digits, which must not hide the real error."""
    assert shown(10**5_000) == "<int, too large to show>"


def test_a_list_too_deep_to_write_is_shown_by_its_type() -> None:
    """S1-31."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "<list, too large to show>"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("memory://", "memory://"),
        ("postgresql://host/jobs", "postgresql://host/jobs"),
        ("postgresql://me@host/jobs", "postgresql://me@host/jobs"),
        ("postgresql://me:secret@host/jobs", "postgresql://me:***@host/jobs"),
        ("postgresql://me:sec@ret@h1:1,h2:2/jobs", "postgresql://me:***@h1:1,h2:2/jobs"),
        ("postgresql://:secret@host", "postgresql://:***@host"),
        ("postgresql://h/d?password=secret&a=b", "postgresql://h/d?password=***&a=b"),
        ("postgresql://h/d?sslpassword=secret", "postgresql://h/d?sslpassword=***"),
        (
            "postgresql://h/d?listen=postgresql%3A%2F%2Fa%3Asecret%40h",
            "postgresql://h/d?listen=***",
        ),
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, text: str) -> None:
    assert shown_url(url) == text


NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (-0.9, "now"),
        (-1, "1 s ago"),
        (-119.9, "119 s ago"),
        (120, "in 2 min"),
        (-7_199, "119 min ago"),
        (7_200, "in 2 h"),
        (-172_799, "47 h ago"),
        (-172_800, "2 d ago"),
        (86_400 * 2_000, "in 2,000 d"),
    ],
)
def test_a_time_is_shown_by_its_distance(seconds: float, text: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == text


def test_a_bar_is_filled_by_a_fraction_and_never_overflows() -> None:
    assert [bar(each, 4) for each in (-1, 0, 0.5, 1, 3)] == ["░░░░", "░░░░", "██░░", "████", "████"]


def test_a_sparkline_shows_the_latest_values_and_anything_above_zero() -> None:
    assert sparkline([], 3) == "▁▁▁"
    assert sparkline([0, 0.1, 100], 4) == "▁▁▂█"
    assert sparkline([9, 1, 2, 3], 2) == "▆█"


def test_what_is_drawn_has_a_form_in_ascii() -> None:
    drawn = bar(0.5) + sparkline(range(8), 8) + "…↑↓"
    assert in_ascii(drawn).isascii()
    assert len(in_ascii(drawn)) == len(drawn)
