"""How often jobs of a type may start (a sliding window), and a token may ask (a bucket).

Starts are stored as *uses*: an instant and a count. A use counts while it is younger than the
window, and no longer when it is exactly as old (as with leases). Stores read uses under a lock, so
that no two claims count the same room.

Counting reads one row for each use. So a high rate is counted by the thousandth of its window: a
use is stored at the end of its thousandth, which frees it slightly later, never sooner.

If the clock is set back, uses lie in the future. All uses of the type are then moved back until the
newest is at the present: the rate is kept, and nothing waits for the clock to catch up. A claim
stores that, or they would stay at the present.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from fencepost.core.bounds import (
    RATE_COUNT_MAX,
    RATE_MOMENTS_MAX,
    RATE_WINDOW_MAX,
    RATE_WINDOW_MIN,
)
from fencepost.core.display import shown
from fencepost.core.values.times import format_duration, parse_duration, seconds_to_us
from fencepost.errors import InvalidDurationError, InvalidRateError

Uses = Sequence[tuple[int, int]]
"""When and how many, the oldest first."""

_TEXT = re.compile(r"(\d{1,9})\s*/\s*(\S.*)", re.ASCII)
_UNITS = {
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86_400.0),
}
_NAMES = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86_400.0: "day"}
_EXAMPLES = '"5/s", "100/m", "1000/h", "10/30s", "3/day"'


class Rate(msgspec.Struct, frozen=True):
    """At most *count* starts in any *window* of seconds."""

    count: int
    window: float

    def __str__(self) -> str:
        """Return it as ``parse_rate`` reads it back."""
        unit = _NAMES.get(self.window)
        return f"{self.count}/{unit[0] if unit else format_duration(self.window)}"

    @property
    def shown(self) -> str:
        """The rate in words: ``100 a minute``, ``10 every 30s``."""
        unit = _NAMES.get(self.window)
        per = f"every {format_duration(self.window)}" if unit is None else _a(unit)
        return f"{self.count:,} {per}"

    @property
    def window_us(self) -> int:
        return seconds_to_us(self.window)

    @property
    def grain_us(self) -> int:
        """The resolution of starts, in microseconds; 1 is exact."""
        return 1 if self.count <= RATE_MOMENTS_MAX else self.window_us // RATE_MOMENTS_MAX

    def moment(self, now: int) -> int:
        """Return the instant at which a start of *now* is stored, never before it."""
        return -(-now // self.grain_us) * self.grain_us

    def as_of(self, uses: Uses, now: int) -> Uses:
        """Return *uses*, moved back if the clock was set back since the newest of them."""
        ahead = uses[-1][0] - self.moment(now) if uses else 0
        return uses if ahead <= 0 else [(at - ahead, count) for at, count in uses]

    def opens_at(self, uses: Uses, now: int) -> int | None:
        """Return the next instant at which one more may start; None if one may now."""
        live = [use for use in self.as_of(uses, now) if use[0] > now - self.window_us]
        excess = sum(count for _, count in live) - self.count
        for at, count in live:
            if excess < 0:
                break
            excess -= count
            if excess < 0:
                return at + self.window_us
        return None


def _a(unit: str) -> str:
    return f"an {unit}" if unit == "hour" else f"a {unit}"


def parse_rate(value: object) -> Rate:
    """Return the rate that ``"100/m"`` and the like mean, or raise InvalidRateError."""
    if isinstance(value, Rate):
        return _checked(value, value)
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidRateError(f"a rate is written like {_EXAMPLES}; got {shown(value)}")
    return _checked(Rate(int(match[1]), _window(match[2], value)), value)


def _window(text: str, value: object) -> float:
    if text in _UNITS:
        return _UNITS[text]
    try:
        return parse_duration(text)
    except InvalidDurationError:
        raise InvalidRateError(
            f"cannot read the window of rate {shown(value)}; write {_EXAMPLES}"
        ) from None


def _checked(rate: Rate, value: object) -> Rate:
    is_count = isinstance(rate.count, int) and not isinstance(rate.count, bool)
    if not is_count or not 1 <= rate.count <= RATE_COUNT_MAX:
        raise InvalidRateError(
            f"a rate lets 1 to {RATE_COUNT_MAX:,} jobs start, got {shown(value)}; "
            f"write {_EXAMPLES}, or pause the type to start none"
        )
    if not RATE_WINDOW_MIN <= rate.window <= RATE_WINDOW_MAX:
        raise InvalidRateError(
            f"the window of a rate lies between {format_duration(RATE_WINDOW_MIN)} and "
            f"{format_duration(RATE_WINDOW_MAX)}, got {shown(value)}; write {_EXAMPLES}"
        )
    return Rate(rate.count, rate.window_us / 1e6)  # as a store gives it back


def soonest(moments: Iterable[int | None]) -> int | None:
    """Return the first of *moments*, None when there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


class Bucket(msgspec.Struct, frozen=True):
    """The tokens left at an instant of a monotonic clock. It holds one second's worth."""

    level: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> Bucket:
        """Return the bucket of a new client."""
        return cls(capacity(rate), now)

    def take(self, rate: float, now: float) -> tuple[Bucket, float]:
        """Return the bucket after one request, and how long to wait: 0 if it was granted.

        A refused request takes nothing, so that a client that keeps asking is served at its rate.
        """
        elapsed = max(now - self.at, 0.0)
        level = min(self.level + elapsed * rate, capacity(rate))
        if level >= 1.0:
            return Bucket(level - 1.0, now), 0.0
        return Bucket(level, now), (1.0 - level) / rate


def capacity(rate: float) -> float:
    """Return how many requests may come at once: a second's worth, at least one."""
    return max(rate, 1.0)
