"""The settings of a task that its jobs carry, so that any process can finish them.

Jobs of one task share a policy; stores keep each distinct one once.

``Retry`` is what a user writes; ``Backoff`` is its stored form, which any process can follow
without the user's code: the delays of a custom function are computed when the policy is made, and a
process that has the function calls it again at each failure. Failures and expired leases take the
same path (S4-8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from random import Random
from typing import Literal

import msgspec

from fencepost.core.bounds import (
    ATTEMPTS_MAX,
    CUSTOM_DELAYS_MAX,
    DURATION_MAX,
    EXECUTION_TIMEOUT_DEFAULT,
    EXPONENT_MAX,
    LIFETIME_DEFAULT,
    TYPE_LENGTH_MAX,
)
from fencepost.core.display import shown
from fencepost.core.job.retryable import ExceptionClasses, ExceptionRule, parse_rule
from fencepost.core.values.names import check_count, check_number
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import ConfigurationError, InvalidJobError

Strategy = Literal["exponential", "linear", "constant", "custom"]
CustomBackoff = Callable[[int, float, float], Duration]
"""From the failed attempt (from 1), initial_delay and max_delay to the delay."""


class Priority(IntEnum):
    """The order in which jobs of one queue start: the lower number first (S1-31, C12).

    It never interrupts a running job (C13).
    """

    CRITICAL = 0
    """System-level work."""
    HIGH = 1
    """A user is waiting."""
    NORMAL = 2
    """Standard background work."""
    LOW = 3
    """Can wait indefinitely."""
    BULK = 4
    """Batch work that must not get in the way."""


PriorityLike = Priority | int | Literal["critical", "high", "normal", "low", "bulk"]
"""What a user writes; ``parse_priority`` takes names in capitals too."""


def parse_priority(value: int | str | Priority) -> Priority:
    """Return the priority that *value* names, or raise InvalidJobError."""
    if isinstance(value, str) and value.isascii() and value.upper() in Priority.__members__:
        return Priority[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 4:
        return Priority(value)
    raise InvalidJobError(
        'priority must be "critical", "high", "normal", "low" or "bulk", or their number from 0 to '
        f"4, got {shown(value)}"
    )


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long to wait after failed attempt number n, in a form that can be stored."""

    strategy: Strategy = "exponential"
    initial_delay: float = 1.0
    max_delay: float = 3600.0
    multiplier: float = 2.0
    jitter: float = 0.0
    """The share by which a delay varies up or down; 1.0 means full jitter."""
    delays: tuple[float, ...] = ()
    """The first results of a custom function; the last one repeats."""
    function: str | None = None
    """The name of a custom function that is called at each failure, where it is known."""

    def delay(self, attempt: int, rng: Random, asked: float | None = None) -> float:
        """Return the seconds to wait after failed attempt *attempt* (from 1), at most max_delay.

        *asked* is what the custom function returned just now, if it was called.
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


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The retry rules and the times of a job."""

    max_attempts: int = 3
    backoff: Backoff = Backoff()
    on_timeout: bool = True
    on_system: bool = True
    timeout: float = EXECUTION_TIMEOUT_DEFAULT
    """The longest one attempt may run, in seconds."""
    lifetime: float = LIFETIME_DEFAULT
    """From submission (or a manual retry) to the end."""
    lease_ttl: float | None = None
    """The length of leases for this task; None: as long as the claim says."""
    max_running_per_key: int | None = None
    """The limit of a concurrency key; None without one."""


DEFAULT_POLICY = Policy()

_decoder = msgspec.json.Decoder(Policy)


def encode_policy(policy: Policy) -> str:
    """Return *policy* as text; equal policies give equal text."""
    return msgspec.json.encode(policy, order="sorted").decode()


def decode_policy(text: str) -> Policy:
    """Return the policy that *text* holds, or raise ValueError if it is corrupt."""
    return _decoder.decode(text)


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often a task is tried again, and after how long.

    The default is three attempts, one and two seconds apart, doubling up to an hour, no jitter.
    With *on*, only these exceptions are retried, with *never*, all but these; subclasses too.
    """

    max_attempts: int
    backoff: Backoff
    on_timeout: bool
    on_system: bool
    function: CustomBackoff | None
    """The custom function, if it is called at each failure."""
    rule: ExceptionRule | None
    """The exceptions that are retried, if not all are."""

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
        on: ExceptionClasses | None = None,
        never: ExceptionClasses = (),
    ) -> None:
        attempts = _attempts(max_attempts, max_retries)
        initial = parse_duration(initial_delay, name="initial_delay")
        longest = parse_duration(max_delay, name="max_delay")
        set_ = object.__setattr__
        set_(self, "max_attempts", attempts)
        set_(self, "on_timeout", bool(on_timeout))
        set_(self, "on_system", bool(on_system))
        set_(self, "rule", parse_rule(on, never))
        function = backoff if callable(backoff) and not sampled else None
        set_(self, "function", function)
        set_(
            self,
            "backoff",
            Backoff(
                strategy=_strategy(backoff),
                initial_delay=initial,
                max_delay=longest,
                multiplier=check_number(multiplier, "multiplier", 1, 1_000),
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
    def fast(cls, *, on: ExceptionClasses | None = None, never: ExceptionClasses = ()) -> Retry:
        """Four attempts, half a second doubling to thirty, full jitter: for short remote calls."""
        return cls(
            max_retries=3, initial_delay=0.5, max_delay=30.0, jitter="full", on=on, never=never
        )

    @classmethod
    def patient(cls, *, on: ExceptionClasses | None = None, never: ExceptionClasses = ()) -> Retry:
        """Ten attempts over about an hour, jittered: outlasts the outages of other services."""
        # 7 + 14 + … + 1,792 = 3,577 s; with the jitter, 48 to 72 minutes.
        return cls(max_attempts=10, initial_delay=7.0, jitter=0.2, on=on, never=never)

    @classmethod
    def none(cls) -> Retry:
        """One attempt only."""
        return cls(max_attempts=1)


RETRY_VARIABLE = "FENCEPOST_RETRY"


def parse_preset(text: str | None) -> Retry:
    """Return the retries that the environment names for a whole app; without a name, the default.

    Raises ConfigurationError for a name that is not known.
    """
    presets = {"": Retry, "default": Retry, "patient": Retry.patient}
    preset = presets.get((text or "").strip().lower())
    if preset is None:
        raise ConfigurationError(
            f'{RETRY_VARIABLE} must be "patient" or "default", got {shown(text)}'
        )
    return preset()


def backoff_name(function: CustomBackoff) -> str:
    """Return the name by which a stored policy knows *function*; a lambda's has its line."""
    module = getattr(function, "__module__", None) or "?"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None and "<" in name else ""
    return f"{module}.{name}{line}"[:TYPE_LENGTH_MAX]


def _attempts(max_attempts: int | None, max_retries: int | None) -> int:
    if max_attempts is not None and max_retries is not None:
        raise ConfigurationError("give max_attempts or max_retries, not both")
    if max_retries is not None:
        return check_count(max_retries, "max_retries", 0, ATTEMPTS_MAX - 1) + 1
    if max_attempts is not None:
        return check_count(max_attempts, "max_attempts", 1, ATTEMPTS_MAX)
    return 3


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
    """Return the delays of a custom function for each attempt that can be retried."""
    if not callable(backoff):
        return ()
    count = min(max(attempts - 1, 1), CUSTOM_DELAYS_MAX)
    return tuple(
        min(parse_duration(backoff(n, initial, longest), name=f"backoff({n})"), longest)
        for n in range(1, count + 1)
    )
