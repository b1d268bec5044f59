"""Delays between attempts: the formulas, the bounds, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import ATTEMPTS_MAX, CUSTOM_DELAYS_MAX, DURATION_MAX
from fencepost.core.job.policy import Backoff, Retry, parse_preset
from fencepost.core.values.times import Duration
from fencepost.errors import ConfigurationError, FencepostError, InvalidDurationError

SECONDS = st.floats(0, DURATION_MAX)
ATTEMPTS = st.integers(1, ATTEMPTS_MAX)
CUSTOM = st.lists(SECONDS, min_size=1, max_size=5).map(
    lambda delays: lambda n, _initial, _longest: delays[n % len(delays)]
)
FORMULAS = st.sampled_from(["exponential", "linear", "constant"])
SHARES = st.floats(0, 1, exclude_max=True)


def retries(backoff: st.SearchStrategy[Any], jitter: st.SearchStrategy[Any]) -> Any:
    return st.builds(
        Retry,
        max_attempts=st.integers(1, 20),
        backoff=backoff,
        initial_delay=SECONDS,
        max_delay=SECONDS,
        multiplier=st.floats(1, 1_000),
        jitter=jitter,
    )


def delays(backoff: Backoff, count: int) -> list[float]:
    return [backoff.delay(n, Random(0)) for n in range(1, count + 1)]


def test_the_default_is_three_attempts_one_second_doubling_to_an_hour_without_jitter() -> None:
    """S1-47..S1-51, C1, C2."""
    retry = Retry()
    assert retry.max_attempts == 3
    assert retry.max_retries == 2
    assert retry.backoff == Backoff("exponential", 1.0, 3600.0, 2.0, 0.0)
    assert retry.on_timeout
    assert retry.on_system
    assert delays(retry.backoff, 13)[-3:] == [1024.0, 2048.0, 3600.0]


def test_the_fast_preset_has_the_numbers_of_the_queue_semantics() -> None:
    """S0-58, S0-62..S0-65, C1, C2."""
    retry = Retry.fast()
    assert retry.max_attempts == 4
    assert retry.max_retries == 3
    assert retry.backoff == Backoff("exponential", 0.5, 30.0, 2.0, 1.0)


def test_the_first_fast_retry_waits_at_most_half_a_second() -> None:
    """S0-62, C2: the exponent counts from zero."""
    backoff = Retry.fast().backoff
    assert max(backoff.delay(1, Random(seed)) for seed in range(200)) <= 0.5
    assert max(backoff.delay(2, Random(seed)) for seed in range(200)) > 0.5


def test_the_patient_preset_is_ten_attempts_over_about_an_hour_with_jitter() -> None:
    retry = Retry.patient()
    assert retry.max_attempts == 10
    totals = [
        sum(retry.backoff.delay(n, rng) for n in range(1, retry.max_attempts))
        for rng in map(Random, range(200))
    ]
    assert len(set(totals)) == 200
    assert 2_800 < min(totals) < max(totals) < 4_400
    assert 3_400 < sum(totals) / 200 < 3_800


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Retry()),
        ("", Retry()),
        ("default", Retry()),
        ("patient", Retry.patient()),
        (" Patient ", Retry.patient()),
    ],
)
def test_the_environment_names_a_preset(text: str | None, expected: Retry) -> None:
    assert parse_preset(text) == expected


def test_an_unknown_preset_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigurationError, match='FENCEPOST_RETRY must be "patient" or "default"'):
        parse_preset("forever")


def test_the_none_preset_and_no_retries_are_one_attempt() -> None:
    """S0-59, C1."""
    assert Retry.none().max_attempts == Retry(max_retries=0).max_attempts == 1


def test_max_retries_is_another_name_for_one_attempt_less() -> None:
    """C1."""
    assert Retry(max_retries=4) == Retry(max_attempts=5)


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(backoff="constant", initial_delay=3), [3.0, 3.0, 3.0, 3.0]),
        (Retry(backoff="linear", initial_delay=3), [3.0, 6.0, 9.0, 12.0]),
        (Retry(backoff="linear", initial_delay=3, max_delay=7), [3.0, 6.0, 7.0, 7.0]),
        (Retry(initial_delay=3), [3.0, 6.0, 12.0, 24.0]),
        (Retry(initial_delay=3, multiplier=3.0, max_delay="30s"), [3.0, 9.0, 27.0, 30.0]),
        (Retry(initial_delay=timedelta(seconds=9), max_delay=5), [5.0, 5.0, 5.0, 5.0]),
        (Retry(initial_delay=0), [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_each_strategy_follows_its_formula_up_to_the_maximum(
    retry: Retry, expected: list[float]
) -> None:
    """S1-52, S1-53, S1-54."""
    assert delays(retry.backoff, 4) == expected


def test_a_slow_exponential_still_grows_after_a_thousand_attempts() -> None:
    """S1-54: the guard against overflow must not cut the formula short."""
    backoff = Retry(multiplier=1.001).backoff
    assert backoff.delay(5_000, Random(0)) == pytest.approx(1.001**4_999)


def test_a_custom_function_is_given_attempt_initial_and_maximum() -> None:
    """S1-55."""
    calls: list[tuple[int, float, float]] = []

    def backoff(attempt: int, initial: float, longest: float) -> float:
        calls.append((attempt, initial, longest))
        return attempt * 10.0

    retry = Retry(max_attempts=4, backoff=backoff, initial_delay=2, max_delay=25)
    assert calls == [(1, 2.0, 25.0), (2, 2.0, 25.0), (3, 2.0, 25.0)]
    assert delays(retry.backoff, 5) == [10.0, 20.0, 25.0, 25.0, 25.0]


def test_a_custom_function_may_answer_in_any_form_of_duration() -> None:
    """S1-55."""
    forms: dict[int, Duration] = {1: "1m", 2: timedelta(seconds=3), 3: 4}
    retry = Retry(max_attempts=4, backoff=lambda n, _i, _m: forms[n])
    assert retry.backoff.delays == (60.0, 3.0, 4.0)


def test_a_custom_function_is_asked_a_bounded_number_of_times() -> None:
    """S1-55: even for a task of ten thousand attempts; the last answer repeats."""
    backoff = Retry(max_attempts=ATTEMPTS_MAX, backoff=lambda n, _i, _m: n).backoff
    assert len(backoff.delays) == CUSTOM_DELAYS_MAX
    assert backoff.delay(ATTEMPTS_MAX, Random(0)) == CUSTOM_DELAYS_MAX


def test_a_custom_function_of_a_single_attempt_is_asked_once() -> None:
    """S1-55: a retry by hand may need its answer."""
    assert Retry(max_attempts=1, backoff=lambda n, _i, _m: n).backoff.delays == (1.0,)


def test_a_custom_function_that_answers_nonsense_is_refused_at_once() -> None:
    """S1-55: at the decorator, not when the job fails."""
    with pytest.raises(InvalidDurationError, match=r"backoff\(1\)"):
        Retry(backoff=lambda _n, _i, _m: -1)


@given(retries(FORMULAS | CUSTOM, st.none() | st.just("full") | SHARES), ATTEMPTS, st.integers())
def test_every_delay_lies_between_zero_and_the_maximum(
    retry: Retry, attempt: int, seed: int
) -> None:
    """C2, S0-64, S1-50: never above the maximum, also after jitter."""
    assert 0 <= retry.backoff.delay(attempt, Random(seed)) <= retry.backoff.max_delay


@given(retries(FORMULAS, st.none()), st.lists(ATTEMPTS, min_size=2))
def test_without_jitter_a_later_attempt_never_waits_less(retry: Retry, attempts: list[int]) -> None:
    """S1-52..S1-54."""
    waits = [retry.backoff.delay(n, Random(0)) for n in sorted(attempts)]
    assert waits == sorted(waits)


@given(retries(FORMULAS | CUSTOM, st.none() | st.just("full") | SHARES))
def test_the_ten_thousandth_attempt_does_not_overflow(retry: Retry) -> None:
    """C2: large n must not overflow."""
    assert 0 <= retry.backoff.delay(10_000, Random(0)) <= retry.backoff.max_delay


@pytest.mark.parametrize("initial", [0.0, 1e-9, 1.0, DURATION_MAX])
def test_the_steepest_growth_ends_at_the_maximum(initial: float) -> None:
    """C2: 1000 ** 9999 is no float."""
    backoff = Retry(initial_delay=initial, multiplier=1_000.0).backoff
    assert backoff.delay(10_000, Random(0)) == (3600.0 if initial else 0.0)


@given(retries(FORMULAS, st.none()), ATTEMPTS, st.integers())
def test_ten_percent_jitter_stays_within_ten_percent(retry: Retry, attempt: int, seed: int) -> None:
    """S1-59, C2."""
    plain = retry.backoff.delay(attempt, Random(0))
    shaken = Backoff(
        strategy=retry.backoff.strategy,
        initial_delay=retry.backoff.initial_delay,
        max_delay=retry.backoff.max_delay,
        multiplier=retry.backoff.multiplier,
        jitter=0.1,
    ).delay(attempt, Random(seed))
    assert 0.9 * plain <= shaken * (1 + 1e-12) + 1e-300
    assert shaken <= min(1.1 * plain * (1 + 1e-12) + 1e-300, retry.backoff.max_delay)


@given(retries(FORMULAS, st.none()), ATTEMPTS, st.integers())
def test_full_jitter_lies_between_zero_and_the_plain_delay(
    retry: Retry, attempt: int, seed: int
) -> None:
    """S0-62, S0-65, C2."""
    plain = retry.backoff.delay(attempt, Random(0))
    full = Backoff(
        strategy=retry.backoff.strategy,
        initial_delay=retry.backoff.initial_delay,
        max_delay=retry.backoff.max_delay,
        multiplier=retry.backoff.multiplier,
        jitter=1.0,
    ).delay(attempt, Random(seed))
    assert 0 <= full <= plain


def test_jitter_spreads_a_herd() -> None:
    """S0-65, S1-59: both kinds reach well into both halves of their range."""
    for jitter, low, high in ((1.0, 0.0, 8.0), (0.1, 7.2, 8.8)):
        backoff = Backoff(jitter=jitter)
        waits = [backoff.delay(4, Random(seed)) for seed in range(400)]
        assert min(waits) < low + 0.1 * (high - low)
        assert max(waits) > high - 0.1 * (high - low)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": ATTEMPTS_MAX + 1}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"max_attempts": 10**5_000}, "max_attempts"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": ATTEMPTS_MAX}, "max_retries"),
        ({"max_retries": "3"}, "max_retries"),
        ({"max_attempts": 3, "max_retries": 2}, "not both"),
        ({"multiplier": 0.9}, "multiplier"),
        ({"multiplier": 1_001}, "multiplier"),
        ({"multiplier": float("nan")}, "multiplier"),
        ({"multiplier": True}, "multiplier"),
        ({"multiplier": "2"}, "multiplier"),
        ({"multiplier": None}, "multiplier"),
        ({"jitter": 1.0}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
        ({"jitter": True}, "jitter"),
        ({"jitter": "some"}, "jitter"),
        ({"backoff": "quadratic"}, "backoff"),
        ({"backoff": None}, "backoff"),
        ({"initial_delay": -1}, "initial_delay"),
        ({"max_delay": "soon"}, "max_delay"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(
    options: dict[str, Any], named: str
) -> None:
    """C1 (both names refuse less than one attempt), C2."""
    with pytest.raises(ConfigurationError, match=named):
        Retry(**options)


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("max_attempts", "max_retries", "backoff", "initial_delay"),
                *("max_delay", "multiplier", "jitter"),
            ]
        ),
        ANYTHING,
    )
)
def test_no_setting_gives_anything_but_a_policy_or_a_fencepost_error(
    options: dict[str, Any],
) -> None:
    """C1, C2."""
    try:
        retry = Retry(**options)
    except FencepostError:
        return
    assert 1 <= retry.max_attempts <= ATTEMPTS_MAX


def test_a_retry_is_a_value_that_cannot_be_changed() -> None:
    """S1-94: what a task was given stays as it was checked."""
    retry = Retry()
    with pytest.raises(AttributeError):
        retry.max_attempts = 5  # type: ignore[misc]  # that it is refused is the point
    assert retry == Retry()
    assert hash(retry) == hash(Retry())
