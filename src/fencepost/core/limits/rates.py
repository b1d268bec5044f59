"""How often jobs of one type may start: at most so many in any window of a length.

A start is written down as a *use*: an instant and how many. A window ends now and slides with it:
a use counts while it is younger than the window, and no longer at the instant at which it is as
old (the same equality as of leases). Stores read uses under a lock, so that no two claimers count
the same room.

To ask what is left costs as many rows as there are uses in a window. So a rate of many starts is
counted by the thousandth of its window: a use is written down at the end of its thousandth, which
frees its place that little bit later, and never sooner.

A clock that is set back leaves uses ahead of it, though nothing starts in the future. They are
moved back, with all others of their type, by as much as puts the newest at the present: what
started together stays together, the rate is kept, and nothing waits for the clock to catch up. A
claim writes that down, or they would go on being the present's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fencepost.core.bounds import (
    RATE_COUNT_MAX,
    RATE_MOMENTS_MAX,
    RATE_WINDOW_MAX,
    RATE_WINDOW_MIN,
)
from fencepost.core.display import shown
from fencepost.core.values.duration import format_duration, parse_duration
from fencepost.core.values.instants import seconds_to_us
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
    """At most *count* starts in any *window* of so many seconds."""

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
        """How finely starts are told apart, in microseconds; 1 is exactly."""
        return 1 if self.count <= RATE_MOMENTS_MAX else self.window_us // RATE_MOMENTS_MAX

    def moment(self, now: int) -> int:
        """Return the instant at which a start of *now* is written down, never before it."""
        return -(-now // self.grain_us) * self.grain_us

    def as_of(self, uses: Uses, now: int) -> Uses:
        """Return *uses*, moved back if the clock has been since the newest of them."""
        ahead = uses[-1][0] - self.moment(now) if uses else 0
        return uses if ahead <= 0 else [(at - ahead, count) for at, count in uses]

    def left(self, uses: Uses, now: int) -> int:
        """Return how many jobs may start at *now*."""
        uses = self.as_of(uses, now)
        used = sum(count for at, count in uses if at > now - self.window_us)
        return max(self.count - used, 0)

    def opens_at(self, uses: Uses, now: int) -> int | None:
        """Return the first instant after *now* at which one more may start; None if one may now."""
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


def check_rates(rates: Mapping[str, Rate | None]) -> dict[str, Rate | None]:
    """Return *rates*, by type, or raise InvalidRateError if one of them makes no sense."""
    return {
        type: None if rates[type] is None else parse_rate(rates[type]) for type in sorted(rates)
    }


def soonest(moments: Iterable[int | None]) -> int | None:
    """Return the first of *moments*, None when there is none."""
    return min((moment for moment in moments if moment is not None), default=None)
