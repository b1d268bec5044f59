"""Times as whole microseconds."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.values.times import (
    EPOCH,
    from_us,
    from_us_or_none,
    parse_instant,
    seconds_to_us,
    to_us,
)
from fencepost.errors import ConfigurationError

ZONES = st.integers(-1_439, 1_439).map(lambda m: timezone(timedelta(minutes=m)))
DAYS = st.integers(-719_000, 2_932_000)  # from year 1 to 9997
AWARE = st.builds(
    lambda day, us, zone: (EPOCH + timedelta(days=day, microseconds=us)).astimezone(zone),
    DAYS,
    st.integers(0, 86_399_999_999),
    ZONES,
)


@given(AWARE)
def test_a_time_survives_storage_to_the_microsecond(instant: datetime) -> None:
    """S1-97, S2-5."""
    restored = from_us(to_us(instant))
    assert restored == instant
    assert restored.tzinfo is UTC


@given(
    st.integers(to_us(datetime.min.replace(tzinfo=UTC)), to_us(datetime.max.replace(tzinfo=UTC)))
)
def test_microseconds_survive_being_a_time(microseconds: int) -> None:
    """S2-5."""
    assert to_us(from_us(microseconds)) == microseconds


@given(AWARE, AWARE)
def test_microseconds_sort_as_their_times_do(one: datetime, other: datetime) -> None:
    """C40: stores compare numbers where the rules speak of times."""
    assert (to_us(one) < to_us(other)) == (one < other)


def test_the_count_begins_in_1970() -> None:
    """S2-5."""
    assert to_us(EPOCH) == 0
    assert from_us(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_a_time_without_a_zone_is_our_bug() -> None:
    """S2-5: times are aware."""
    with pytest.raises(TypeError):
        to_us(EPOCH.replace(tzinfo=None))


def test_no_time_stays_no_time() -> None:
    """S1-103: null before there is one."""
    assert from_us_or_none(None) is None
    assert from_us_or_none(0) == EPOCH


@pytest.mark.parametrize(
    ("seconds", "microseconds"), [(0, 0), (1, 1_000_000), (0.000_000_6, 1), (1 / 3, 333_333)]
)
def test_a_duration_is_rounded_to_the_nearest_microsecond(
    seconds: float, microseconds: int
) -> None:
    """S2-6."""
    assert seconds_to_us(seconds) == microseconds


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5+02:00", datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_iso_8601_in_utc_unless_it_says_otherwise(
    text: str, instant: datetime
) -> None:
    """S2-5."""
    parsed = parse_instant(text, name="created_after")
    assert parsed == instant
    assert parsed.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026", "2026-13-01", "12:00", "2026-01-01T00:00" + "0" * 100, "0001-01-01T00+05"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    """S2-5: also what is none in UTC any more."""
    with pytest.raises(ConfigurationError, match="created_after"):
        parse_instant(text, name="created_after")


@given(st.text())
def test_any_text_is_a_time_or_refused(text: str) -> None:
    """S2-5."""
    with suppress(ConfigurationError):
        assert parse_instant(text, name="at").tzinfo is UTC
