"""Durations as users write them (seconds, a timedelta, ``"1h30m"``), and times as stores keep them.

Stores keep and compare aware UTC times as whole microseconds since 1970.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from fencepost.core.bounds import DURATION_MAX
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError, FencepostError, InvalidDurationError

Duration = float | int | str | timedelta

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
TEXT_LENGTH_MAX = 64


def parse_duration(
    value: Duration, *, name: str = "duration", minimum: float = 0.0, maximum: float = DURATION_MAX
) -> float:
    """Return *value* in seconds, or raise InvalidDurationError if it makes no sense."""
    seconds = _to_seconds(value, name)
    if not math.isfinite(seconds) or not minimum <= seconds <= maximum:
        raise InvalidDurationError(
            f"{name} must lie between {format_duration(minimum)} and {format_duration(maximum)}, "
            f"got {shown(value)}"
        )
    return seconds


def _to_seconds(value: object, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parse_text(value, name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    raise InvalidDurationError(
        f'{name} must be seconds, a timedelta or text like "90s", "10m", "24h", got {shown(value)}'
    )


def _parse_text(text: str, name: str) -> float:
    stripped = text.strip()
    if len(text) <= TEXT_LENGTH_MAX and _WHOLE.fullmatch(stripped):
        return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(stripped))
    raise InvalidDurationError(
        f'{name}: cannot read {shown(text)}; write "90s", "10m", "1h30m", "7d"'
    )


def format_duration(seconds: float) -> str:
    """Return *seconds* as short text that ``parse_duration`` reads back (to the millisecond)."""
    if seconds < 1:
        return f"{round(seconds * 1000, 3):g}ms" if seconds else "0s"
    parts = []
    rest = round(seconds, 3)
    for unit in ("d", "h", "m"):
        whole, rest = divmod(rest, UNITS[unit])
        if whole:
            parts.append(f"{int(whole)}{unit}")
    if rest >= 0.001 or not parts:
        parts.append(f"{round(rest, 3):g}s")
    return "".join(parts)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Return *instant* in microseconds since 1970, exactly."""
    return (instant - EPOCH) // MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Return the aware UTC time of *microseconds* since 1970, exactly."""
    return EPOCH + timedelta(microseconds=microseconds)


def from_us_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_us(microseconds)


def seconds_to_us(seconds: float) -> int:
    """Return a duration in whole microseconds."""
    return round(seconds * 1_000_000)


def check_instant(
    value: object,
    *,
    name: str,
    example: str = "datetime.now(UTC) - timedelta(…)",
    error: type[FencepostError] = ConfigurationError,
) -> datetime:
    """Return an aware time in UTC, or raise *error*."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise error(
            f"{name} must be a datetime with a time zone, got {shown(value)}; write {example}"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        # A stored value like this would make listing jobs fail.
        raise error(f"{name} is outside of the calendar in UTC: {shown(value)}") from None


def parse_instant(text: str, *, name: str) -> datetime:
    """Return the time that ISO 8601 text means, in UTC unless it says otherwise."""
    try:
        parsed = datetime.fromisoformat(text if len(text) <= TEXT_LENGTH_MAX else "")
    except ValueError:
        raise ConfigurationError(
            f"{name}: cannot read {shown(text)}; write a time like 2026-01-31T12:00:00Z"
        ) from None
    aware = parsed if parsed.utcoffset() is not None else parsed.replace(tzinfo=UTC)
    return check_instant(aware, name=name)
