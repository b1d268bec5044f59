"""When a failed attempt is tried again, and after how long.

``Retry`` is what a user writes; ``Backoff`` is its stored form, which any process can follow
without the user's code: a custom function is worked out when the policy is made, attempt by
attempt, and whoever has it at hand when an attempt fails asks it again. Failures and expired leases
take the same path (S4-8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

import msgspec

from fencepost.core.bounds import (
    ATTEMPTS_MAX,
    CUSTOM_DELAYS_MAX,
    DURATION_MAX,
    EXPONENT_MAX,
    TYPE_LENGTH_MAX,
)
from fencepost.core.display import shown
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.errors import ConfigurationError

Strategy = Literal["exponential", "linear", "constant", "custom"]
CustomBackoff = Callable[[int, float, float], Duration]
"""Given the attempt that failed (from 1), initial_delay and max_delay: how long to wait."""


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long to wait after failed attempt number n, in a form that can be stored."""

    strategy: Strategy = "exponential"
    initial_delay: float = 1.0
    max_delay: float = 3600.0
    multiplier: float = 2.0
    jitter: float = 0.0
    """The share of the delay by which it may vary up or down; 1.0 means full jitter."""
    delays: tuple[float, ...] = ()
    """For a custom function: its first results, the last of which repeats."""
    function: str | None = None
    """The name of a custom function that is asked at every failure, where it is at hand."""

    def delay(self, attempt: int, rng: Random, asked: float | None = None) -> float:
        """Return the seconds to wait after failed attempt *attempt* (from 1), at most max_delay.

        *asked* is what the custom function says now, if it was asked.
        """
        assert attempt >= 1
        planned = min(self._planned(attempt) if asked is None else asked, self.max_delay)
        if self.jitter == FULL_JITTER:
            return rng.uniform(0.0, planned)
        if self.jitter:
            planned *= rng.uniform(1 - self.jitter, 1 + self.jitter)
        return min(planned, self.max_delay)

    def _planned(self, attempt: int) -> float:
        match self.strategy:
            case "constant":
                return self.initial_delay
            case "linear":
                return self.initial_delay * attempt
            case "exponential":
                return self.initial_delay * self._growth(attempt - 1)
            case "custom":  # pragma: no branch - exhaustive
                return self.delays[min(attempt, len(self.delays)) - 1]

    def _growth(self, exponent: int) -> float:
        try:
            return self.multiplier ** min(exponent, EXPONENT_MAX)
        except OverflowError:
            return DURATION_MAX if self.initial_delay == 0 else math.inf


FULL_JITTER = 1.0


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often and how patiently a task is tried again.

    The default is three attempts, one and two seconds apart, doubling up to an hour, no jitter.
    """

    max_attempts: int
    backoff: Backoff
    on_timeout: bool
    on_system: bool
    function: CustomBackoff | None
    """The custom function, if it is to be asked at every failure."""

    def __init__(
        self,
        *,
        max_attempts: int | None = None,
        max_retries: int | None = None,
        backoff: Literal["exponential", "linear", "constant"] | CustomBackoff = "exponential",
        initial_delay: Duration = 1.0,
        max_delay: Duration = 3600.0,
        multiplier: float = 2.0,
        jitter: Literal["full"] | float | None = None,
        on_timeout: bool = True,
        on_system: bool = True,
        sampled: bool = False,
    ) -> None:
        attempts = _attempts(max_attempts, max_retries)
        initial = parse_duration(initial_delay, name="initial_delay")
        longest = parse_duration(max_delay, name="max_delay")
        set_ = object.__setattr__
        set_(self, "max_attempts", attempts)
        set_(self, "on_timeout", bool(on_timeout))
        set_(self, "on_system", bool(on_system))
        function = backoff if callable(backoff) and not sampled else None
        set_(self, "function", function)
        set_(
            self,
            "backoff",
            Backoff(
                strategy=_strategy(backoff),
                initial_delay=initial,
                max_delay=longest,
                multiplier=_multiplier(multiplier),
                jitter=_jitter(jitter),
                delays=_custom_delays(backoff, attempts, initial, longest),
                function=None if function is None else backoff_name(function),
            ),
        )

    @property
    def max_retries(self) -> int:
        """Attempts after the first."""
        return self.max_attempts - 1

    @classmethod
    def fast(cls) -> Retry:
        """Four attempts, half a second doubling to thirty, full jitter: for short remote calls."""
        return cls(max_retries=3, initial_delay=0.5, max_delay=30.0, jitter="full")

    @classmethod
    def none(cls) -> Retry:
        """One attempt only."""
        return cls(max_attempts=1)


def backoff_name(function: CustomBackoff) -> str:
    """Return the name by which a stored policy knows *function*.

    Two lambdas of a module have one name; the line on which they stand tells them apart.
    """
    module = getattr(function, "__module__", None) or "?"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None and "<" in name else ""
    return f"{module}.{name}{line}"[:TYPE_LENGTH_MAX]


def _attempts(max_attempts: int | None, max_retries: int | None) -> int:
    if max_attempts is not None and max_retries is not None:
        raise ConfigurationError("give max_attempts or max_retries, not both")
    if max_retries is not None:
        _check_count("max_retries", max_retries, 0, ATTEMPTS_MAX - 1)
        return max_retries + 1
    if max_attempts is not None:
        _check_count("max_attempts", max_attempts, 1, ATTEMPTS_MAX)
        return max_attempts
    return 3


def _check_count(name: str, value: object, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {minimum} and {maximum}, got {shown(value)}"
        )


def _multiplier(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 1 <= value <= 1_000:
        return float(value)
    raise ConfigurationError(f"multiplier must lie between 1 and 1000, got {shown(value)}")


def _strategy(backoff: str | CustomBackoff) -> Strategy:
    if callable(backoff):
        return "custom"
    if backoff in ("exponential", "linear", "constant"):
        return backoff  # type: ignore[return-value]  # narrowed by the membership test
    raise ConfigurationError(
        f'backoff must be "exponential", "linear", "constant" or a function, got {shown(backoff)}'
    )


def _jitter(value: object) -> float:
    if value is None:
        return 0.0
    if value == "full":
        return FULL_JITTER
    if isinstance(value, float) and 0.0 <= value < 1.0:
        return value
    raise ConfigurationError(f'jitter must be None, "full" or a share like 0.1, got {shown(value)}')


def _custom_delays(
    backoff: str | CustomBackoff, attempts: int, initial: float, longest: float
) -> tuple[float, ...]:
    """Work out a custom function for every attempt that can fail and be tried again."""
    if not callable(backoff):
        return ()
    count = min(max(attempts - 1, 1), CUSTOM_DELAYS_MAX)
    return tuple(
        min(parse_duration(backoff(n, initial, longest), name=f"backoff({n})"), longest)
        for n in range(1, count + 1)
    )
