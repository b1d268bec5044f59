"""The limits of a type as one value: parsed, checked, shown and explained in one place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_type_hints

import msgspec
import pytest

from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import (
    NO_LIMITS,
    NO_USAGE,
    LimitOptions,
    TypeLimits,
    TypeUsage,
    check_limits,
    parse_limits,
)
from fencepost.core.stats.overview import TypeView
from fencepost.errors import InvalidRateError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RATED = TypeLimits(rate=Rate(100, 60.0))


def test_every_limit_is_an_option_of_a_task() -> None:
    assert tuple(get_type_hints(LimitOptions)) == TypeLimits.__struct_fields__


def test_options_become_limits() -> None:
    assert parse_limits(rate="100/m") == RATED
    assert parse_limits(rate=None) == parse_limits() == NO_LIMITS
    with pytest.raises(InvalidRateError):
        parse_limits(rate="often")


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="raet"):
        parse_limits(raet="100/m")  # type: ignore[call-arg]  # what a typing mistake does


def test_limits_are_checked_together_and_come_sorted() -> None:
    assert list(check_limits({"b": NO_LIMITS, "a": RATED})) == ["a", "b"]
    fine = TypeLimits(rate=Rate(1, 1.00000001))
    assert check_limits({"a": fine}) == {"a": TypeLimits(rate=Rate(1, 1.0))}
    with pytest.raises(InvalidRateError):
        check_limits({"a": RATED, "b": TypeLimits(rate=Rate(0, 1.0))})


def test_limits_are_read_back_as_they_were_written() -> None:
    """Also by a version that does not know one of them."""
    for limits in (NO_LIMITS, RATED):
        assert msgspec.json.decode(msgspec.json.encode(limits), type=TypeLimits) == limits
    later = b'{"rate":{"count":100,"window":60.0},"unheard_of":1}'
    assert msgspec.json.decode(later, type=TypeLimits) == RATED


def test_a_view_of_a_type_has_its_limits_as_fields() -> None:
    view = TypeView(name="mail", rate=RATED.rate)
    assert (view.rate, view.limits) == (RATED.rate, RATED)
    assert view.limit_notes == ["starts 100 a minute"]
    assert TypeView(name="mail").limit_notes == []


def test_a_limit_that_is_reached_is_an_obstacle_until_it_opens() -> None:
    usage = TypeUsage(rate_opens_at=NOON + timedelta(seconds=12))
    text = "type 'mail' starts at most 100 a minute; the next can start in 12s"
    assert list(RATED.obstacles("mail", usage, NOON)) == [("rate_limited", text)]
    assert usage.opens_at == NOON + timedelta(seconds=12)
    assert list(RATED.obstacles("mail", NO_USAGE, NOON)) == []
    assert list(NO_LIMITS.obstacles("mail", usage, NOON)) == []
