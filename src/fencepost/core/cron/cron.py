"""A cron: a job to be submitted at every tick of a schedule, and what is due of it.

The decision is pure and goes by the store's time; that a tick is fired once, however many
processes come to the same decision, is the store's doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from fencepost.core.bounds import (
    CATCH_UP_DEFAULT,
    CATCH_UP_MAX,
    CRON_GRACE,
    CRON_NAME_LENGTH_MAX,
)
from fencepost.core.cron.schedule import Schedule
from fencepost.core.display import shown
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import check_name
from fencepost.errors import ConfigurationError, InvalidJobError

GRACE = timedelta(seconds=CRON_GRACE)


class Missed(StrEnum):
    """What becomes of ticks that came while nobody could fire them."""

    LATEST = "latest"
    """One job, for the most recent of them."""
    SKIP = "skip"
    """None."""
    CATCH_UP = "catch_up"
    """One job for each of the last few, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """What an app declares: when, what, and what about ticks that were missed."""

    name: str
    schedule: Schedule
    template: NewJob
    missed: Missed = Missed.LATEST
    catch_up: int = CATCH_UP_DEFAULT

    def job(self, tick: datetime) -> NewJob:
        """Return the job of one tick, whose key no second job of the same tick can take."""
        return msgspec.structs.replace(self.template, key=Key(tick_key(self.name, tick)))


class Due(NamedTuple):
    """The ticks to fire now, oldest first, and the one to wait for after them."""

    ticks: list[datetime]
    next_tick: datetime | None


def due(cron: Cron, *, next_tick: datetime, now: datetime) -> Due:
    """Return what is due of *cron*, none of whose ticks from *next_tick* on was fired.

    A stored tick need not be one of the schedule's: rules of time zones change.
    """
    if now < next_tick:
        return Due([], next_tick)
    count = cron.catch_up if cron.missed is Missed.CATCH_UP else 1
    ticks = cron.schedule.last(count, since=next_tick, until=now)
    if cron.missed is Missed.SKIP:
        ticks = [tick for tick in ticks if now - tick < GRACE]
    return Due(ticks, cron.schedule.next_after(now))


def tick_key(name: str, tick: datetime) -> str:
    """Return the idempotency key of one tick."""
    return f"cron:{name}:{tick:%Y-%m-%dT%H:%M:%SZ}"


def check_cron_name(value: object) -> str:
    """Return *value* if it can name a cron, or raise ConfigurationError."""
    try:
        return check_name(value, what="the name of a cron", limit=CRON_NAME_LENGTH_MAX)
    except InvalidJobError as error:
        raise ConfigurationError(str(error)) from None


def parse_missed(value: object) -> Missed:
    """Return the policy that *value* names, or raise ConfigurationError."""
    try:
        return Missed(value)  # type: ignore[arg-type]  # that it may be anything is the point
    except ValueError:
        names = ", ".join(f'"{each}"' for each in Missed)
        raise ConfigurationError(f"missed must be one of {names}, got {shown(value)}") from None


def check_catch_up(value: object) -> int:
    """Return how many missed ticks are made up for, or raise ConfigurationError."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not (is_count and 1 <= value <= CATCH_UP_MAX):  # type: ignore[operator]  # is an int here
        raise ConfigurationError(
            f"catch_up must lie between 1 and {CATCH_UP_MAX}, got {shown(value)}"
        )
    return value  # type: ignore[return-value]  # is an int here
