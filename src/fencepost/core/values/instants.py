"""Aware UTC times as whole microseconds, which is how stores keep and compare them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_TEXT_LENGTH_MAX = 64


def to_us(instant: datetime) -> int:
    """Return *instant* in microseconds since 1970, exactly."""
    return (instant - EPOCH) // MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Return the aware UTC time of *microseconds* since 1970, exactly."""
    return EPOCH + timedelta(microseconds=microseconds)


def from_us_or_none(microseconds: int | None) -> datetime | None:
    """Return the time, or None for None."""
    return None if microseconds is None else from_us(microseconds)


def seconds_to_us(seconds: float) -> int:
    """Return a duration in whole microseconds."""
    return round(seconds * 1_000_000)


def check_instant(value: object, *, name: str) -> datetime:
    """Return an aware time in UTC, or raise ConfigurationError."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigurationError(
            f"{name} must be a datetime with a time zone, got {shown(value)}; "
            f"write datetime.now(UTC) - timedelta(…)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ConfigurationError(
            f"{name} lies outside of the calendar in UTC: {shown(value)}"
        ) from None


def parse_instant(text: str, *, name: str) -> datetime:
    """Return the time that ISO 8601 text means, in UTC unless it says otherwise."""
    try:
        parsed = datetime.fromisoformat(text if len(text) <= _TEXT_LENGTH_MAX else "")
    except ValueError:
        raise ConfigurationError(
            f"{name}: cannot read {shown(text)}; write a time like 2026-01-31T12:00:00Z"
        ) from None
    aware = parsed if parsed.utcoffset() is not None else parsed.replace(tzinfo=UTC)
    return check_instant(aware, name=name)
