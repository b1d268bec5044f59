"""How many requests a token may make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.limits.rates import Bucket, capacity


def test_a_second_may_come_at_once_and_then_the_rate_holds() -> None:
    """A caller that waits for the time it was given is served."""
    bucket = Bucket.full(5.0, 100.0)
    for _ in range(5):
        bucket, wait = bucket.take(5.0, 100.0)
        assert wait == 0.0
    bucket, wait = bucket.take(5.0, 100.0)
    assert wait == pytest.approx(0.2)
    bucket, wait = bucket.take(5.0, 100.0 + wait)
    assert wait == 0.0


def test_a_slow_rate_lets_one_through_at_first() -> None:
    bucket, wait = Bucket.full(0.1, 0.0).take(0.1, 0.0)
    assert wait == 0.0
    assert bucket.take(0.1, 0.0)[1] == pytest.approx(10.0)


def test_what_is_refused_takes_nothing() -> None:
    """One that keeps asking is served at its rate, not never."""
    bucket = Bucket(0.0, 0.0)
    served = 0
    for step in range(1, 1001):
        bucket, wait = bucket.take(2.0, step / 100)
        served += wait == 0.0
    assert served in (19, 20)


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket, wait = Bucket(0.5, 100.0).take(1.0, 0.0)
    assert wait == pytest.approx(0.5)
    assert bucket.level == 0.5


@given(
    st.floats(0.01, 1e6),
    st.lists(st.floats(0.0, 10.0), max_size=200),
)
def test_never_more_than_the_rate_and_a_burst(rate: float, pauses: list[float]) -> None:
    bucket, now, served = Bucket.full(rate, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        bucket, wait = bucket.take(rate, now)
        served += wait == 0.0
        assert wait >= 0.0
    assert served <= now * rate + capacity(rate) + 1e-6
