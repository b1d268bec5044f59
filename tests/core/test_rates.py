"""Rates as users write them, and what they allow."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import RATE_COUNT_MAX, RATE_MOMENTS_MAX
from fencepost.core.limits.rates import Rate, Uses, parse_rate, soonest
from fencepost.errors import ConfigurationError, InvalidRateError

SECOND = 1_000_000

rates = st.builds(
    Rate,
    st.integers(1, RATE_COUNT_MAX),
    st.integers(1_000, 86_400 * SECOND).map(lambda us: us / 1e6),
)


@pytest.mark.parametrize(
    ("text", "count", "window"),
    [
        ("5/s", 5, 1.0),
        ("100/m", 100, 60.0),
        ("1000/h", 1000, 3600.0),
        ("3/d", 3, 86_400.0),
        ("3/day", 3, 86_400.0),
        ("2/second", 2, 1.0),
        ("2/min", 2, 60.0),
        ("2/hour", 2, 3600.0),
        ("10/30s", 10, 30.0),
        ("10/1h30m", 10, 5400.0),
        ("1/250ms", 1, 0.25),
        (" 7 / 2m ", 7, 120.0),
        ("1000000/1d", 1_000_000, 86_400.0),
        (Rate(4, 2.5), 4, 2.5),
    ],
)
def test_a_rate_is_read(text: Any, count: int, window: float) -> None:
    assert parse_rate(text) == Rate(count, window)


@pytest.mark.parametrize(
    "value",
    [
        *("0/m", "-1/s", "x", "10/0s", "1000001/d", "1/2d", "1/25h", "", "/", "5", "5/", "/s"),
        *("1.5/s", "5/y", "5/-1s", "5/ms", "1/0.1ms", "5/s/s", "５/s", "9" * 5_000 + "/s"),
        *(None, 5, True, b"5/s", 5.0, ("5", "s"), object()),
        *(Rate(0, 1.0), Rate(1, float("nan")), Rate(True, 1.0), Rate(1, -1.0), Rate(1, 86_401.0)),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused_with_examples(value: Any) -> None:
    with pytest.raises(InvalidRateError, match="100/m") as caught:
        parse_rate(value)
    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.code == "invalid_rate"
    assert len(str(caught.value)) < 600


@given(rates)
def test_a_rate_that_is_written_out_is_read_back(rate: Rate) -> None:
    """To the millisecond, as durations are."""
    again = parse_rate(str(rate))
    assert again.count == rate.count
    assert again.window == pytest.approx(rate.window, abs=0.001)


@pytest.mark.parametrize(
    ("text", "short", "words"),
    [
        ("100/m", "100/m", "100 a minute"),
        ("1000/1h", "1000/h", "1,000 an hour"),
        ("5/second", "5/s", "5 a second"),
        ("3/day", "3/d", "3 a day"),
        ("10/30s", "10/30s", "10 every 30s"),
    ],
)
def test_a_rate_is_shown_short_and_in_words(text: str, short: str, words: str) -> None:
    rate = parse_rate(text)
    assert (str(rate), rate.shown) == (short, words)


def left(rate: Rate, uses: Uses, now: int) -> int:
    """Return how many jobs may start at *now*; stores count that in SQL."""
    used = sum(count for at, count in rate.as_of(uses, now) if at > now - rate.window_us)
    return max(rate.count - used, 0)


def test_a_use_counts_until_it_is_as_old_as_the_window() -> None:
    rate = Rate(3, 10.0)
    uses = [(0, 1), (5 * SECOND, 2)]
    assert left(rate, uses, 10 * SECOND - 1) == 0
    assert left(rate, uses, 10 * SECOND) == 1
    assert left(rate, uses, 15 * SECOND) == 3
    assert rate.opens_at(uses, 7 * SECOND) == 10 * SECOND
    assert rate.opens_at(uses, 10 * SECOND) is None
    assert rate.opens_at([], 0) is None


@given(
    st.builds(Rate, st.integers(1, 10), st.integers(1, 20).map(float)),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=12),
    st.integers(0, 60),
)
def test_a_rate_opens_exactly_when_something_is_left(
    rate: Rate, given_uses: list[tuple[int, int]], seconds: int
) -> None:
    now = seconds * SECOND
    uses = rate.as_of(sorted((at * SECOND, count) for at, count in given_uses), now)
    opens_at = rate.opens_at(uses, now)
    if opens_at is None:
        assert left(rate, uses, now) > 0
    else:
        assert now < opens_at
        assert left(rate, uses, now) == left(rate, uses, opens_at - 1) == 0
        assert left(rate, uses, opens_at) > 0


@given(rates, st.integers(0, 2**52))
def test_a_start_is_written_down_at_the_end_of_its_grain(rate: Rate, now: int) -> None:
    """Never sooner than it was, and a thousandth of the window later at the most."""
    moment = rate.moment(now)
    late = moment - now
    assert 0 <= late < rate.grain_us
    assert rate.moment(moment) == moment
    assert rate.grain_us == 1 or rate.grain_us * RATE_MOMENTS_MAX <= rate.window_us
    if rate.count <= RATE_MOMENTS_MAX:
        assert late == 0


@given(st.integers(0, 1_000), st.integers(1, 4), st.booleans())
def test_a_clock_that_is_set_back_neither_stops_a_type_nor_breaks_its_rate(
    seed: int, count: int, is_many: bool
) -> None:
    """By seconds or by hours, again and again; windows are of the time that really passes."""
    rng = Random(seed)
    rate = Rate(count * (RATE_MOMENTS_MAX if is_many else 1) + 1, 10.0)
    uses: Uses = ()
    starts: list[tuple[int, int]] = []
    time, behind = 2**50, 0
    for _ in range(60):
        time += rng.randrange(3 * SECOND)
        behind += rng.choice((0, 0, rng.randrange(5 * SECOND), 3_600 * SECOND))
        now = time - behind
        uses = rate.as_of(uses, now)
        taken = min(left(rate, uses, now), rng.randrange(1, rate.count + 1))
        if taken:
            uses = [*uses, (rate.moment(now), taken)]
            starts.append((time, taken))
    for begin, _ in starts:
        assert sum(n for at, n in starts if begin <= at < begin + rate.window_us) <= rate.count
    later = now + rate.window_us + rate.grain_us
    assert left(rate, uses, later) == rate.count


@given(st.integers(0, 1_000), st.integers(1, 4), st.booleans())
def test_whoever_asks_first_never_starts_too_many_in_any_window(
    seed: int, count: int, is_many: bool
) -> None:
    """Claims at random times: no window, wherever it begins, holds more starts than the rate."""
    rng = Random(seed)
    rate = Rate(count * (RATE_MOMENTS_MAX if is_many else 1) + 1, 10.0)
    uses: list[tuple[int, int]] = []
    starts: list[tuple[int, int]] = []
    now = rng.randrange(SECOND)
    for _ in range(60):
        now += rng.randrange(3 * SECOND)
        taken = min(left(rate, uses, now), rng.randrange(1, rate.count + 1))
        if taken:
            uses.append((rate.moment(now), taken))
            starts.append((now, taken))
    for begin, _ in starts:
        held = sum(n for at, n in starts if begin <= at < begin + rate.window_us)
        assert held <= rate.count


def test_the_soonest_of_some_moments_is_found() -> None:
    assert soonest([None, 3, 2, None]) == 2
    assert soonest([None]) is None
