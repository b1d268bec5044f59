"""Durations as users write them: seconds, a timedelta, or text like ``"90s"`` and ``"1h30m"``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from fencepost.core.bounds import DURATION_MAX
from fencepost.core.display import shown
from fencepost.errors import InvalidDurationError

Duration = float | int | str | timedelta

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_TEXT_LENGTH_MAX = 64


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
    if len(stripped) <= _TEXT_LENGTH_MAX and _WHOLE.fullmatch(stripped):
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
