"""Aware UTC times as whole microseconds, which is how stores keep and compare them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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
