"""Crons: schedules in a time zone, and the ticks that are due.

Decisions are pure and use the store's time; the store fires each tick once, however many processes
decide to.

When the clocks change, an expression with fixed hours and minutes ticks exactly once: in spring, a
tick in the gap comes right after it; in autumn, at the first of the two times. One whose hour or
minute begins with ``*`` follows real time: ``*/15 * * * *`` ticks every quarter of an hour, also
through the repeated hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from fencepost.core.bounds import (
    CATCH_UP_DEFAULT,
    CATCH_UP_MAX,
    CRON_EXPRESSION_LENGTH_MAX,
    CRON_GRACE,
    CRON_NAME_LENGTH_MAX,
    CRON_ZONE_LENGTH_MAX,
)
from fencepost.core.display import shown
from fencepost.core.job.idempotency import CRON_KEYS, Key
from fencepost.core.job.job import NewJob
from fencepost.core.runs import marked
from fencepost.core.values.names import check_choice, check_count, check_name
from fencepost.errors import ConfigurationError, InvalidCronError

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = "minute hour day-of-month month day-of-week"
REFERENCE = datetime(2000, 1, 1, tzinfo=UTC)
"""A schedule without a tick in the half century from here never ticks."""
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


class Calendar(CronSim):
    """Starts each day at midnight, or right after the gap if the clocks skip midnight.

    From a midnight that does not exist, the library would skip the hour after the gap.
    """

    def advance_month(self) -> None:
        before = self.dt
        super().advance_month()
        self._leave_gap(before)

    def advance_day(self) -> bool:
        before = self.dt
        has_moved = super().advance_day()
        self._leave_gap(before)
        return has_moved

    def _leave_gap(self, before: datetime) -> None:
        if self.dt is not before and self.dt.tzinfo is not None:
            self.dt = self.dt.astimezone(UTC).astimezone(self.dt.tzinfo)


@dataclass(frozen=True, slots=True)
class Schedule:
    """An expression of five fields in a time zone. Made by ``parse_schedule``."""

    expression: str
    tz: str
    zone: tzinfo

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield every tick later than *moment*, in UTC and in order."""
        last = moment
        try:
            expression = SHORTHANDS.get(self.expression, self.expression)
            for local in Calendar(expression, moment.astimezone(self.zone)):
                tick = local.astimezone(UTC)
                # In the second of two equal hours the library repeats the ticks of the first.
                if tick > last:
                    last = tick
                    yield tick
        except OverflowError:
            return  # the end of the calendar

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first tick later than *moment*, if there is one."""
        return next(self.after(moment), None)

    def last(self, count: int, *, since: datetime, until: datetime) -> list[datetime]:
        """Return the last *count* ticks from *since* to *until*, both included, oldest first.

        It does not walk through a year of minutes for the last ten.
        """
        assert count >= 1
        most = 4 * count
        early = since - INSTANT
        found = self._between(early, until, count + 1)
        if len(found) <= count:
            return found
        # Ticks are at least a minute apart, so after this there are too few.
        late = until - count * MINUTE
        start = late
        while len(found := self._between(start, until, most)) < count:
            late, start = start, until - min(2 * (until - start), until - early)
        while len(found) == most:  # too many to be the last ones: come closer
            middle = start + (late - start) / 2
            closer = self._between(middle, until, most)
            if len(closer) < count:
                late = middle
            else:
                start, found = middle, closer
        return found[-count:]

    def _between(self, early: datetime, until: datetime, most: int) -> list[datetime]:
        """Return the first *most* ticks later than *early*, up to *until*."""
        return list(islice(takewhile(lambda tick: tick <= until, self.after(early)), most))

    def describe(self) -> str:
        """Say in English when it ticks."""
        expression = SHORTHANDS.get(self.expression, self.expression)
        text = CronSim(expression, REFERENCE).explain()
        text = re.sub(r"(?<!1)(1|2|3)th\b", _ordinal, text)
        for pattern, shorter in _SHORTER:
            text = re.sub(pattern, shorter, text)
        return text

    def local(self, tick: datetime) -> datetime:
        """Return *tick* in the schedule's zone."""
        return tick.astimezone(self.zone)


_SHORTER = (
    # Only what divides an hour: others are shorter at its end.
    (r"^Every (10|12|15|20|30)th minute\b", r"Every \1 minutes"),
    *(
        (rf"^Every {word} minute\b", f"Every {number} minutes")
        for number, word in enumerate(("second", "third", "fourth", "fifth", "sixth"), start=2)
    ),
    (r"^(Every \d+ minutes) of every hour", r"\1"),
    (r"\bon Monday through Friday$", "on weekdays"),
    (r"^At (\d\d:\d\d) on weekdays$", r"Every weekday at \1"),
    (r"^At (\d\d:\d\d) every day$", r"Every day at \1"),
    (r"^At (\d\d:\d\d) on (\w+day)$", r"Every \2 at \1"),
)
"""What people say for it."""


def _ordinal(match: re.Match[str]) -> str:
    return match[1] + {"1": "st", "2": "nd", "3": "rd"}[match[1]]


def parse_schedule(expression: object, tz: object = "UTC") -> Schedule:
    """Return the schedule, or raise InvalidCronError."""
    text = _parse_expression(expression)
    name, zone = parse_zone(tz)
    schedule = Schedule(text, name, zone)
    try:
        first = schedule.next_after(REFERENCE)
    except (CronSimError, ValueError) as error:
        raise InvalidCronError(
            f"{shown(expression)} is no cron expression: {error}; the fields are {FIELDS}"
        ) from None
    if first is None:
        raise InvalidCronError(f"{shown(expression)} never comes: no day meets all of its fields")
    return schedule


def _parse_expression(expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidCronError(
            f'a cron expression is text such as "0 9 * * 1-5", got {shown(expression)}'
        )
    if len(expression) > CRON_EXPRESSION_LENGTH_MAX:
        raise InvalidCronError(
            f"a cron expression may have {CRON_EXPRESSION_LENGTH_MAX} characters, "
            f"got {len(expression)}"
        )
    text = " ".join(expression.split())
    if text.startswith("@"):
        if text.lower() in SHORTHANDS:
            return text.lower()
        known = ", ".join(SHORTHANDS)
        raise InvalidCronError(f"{shown(expression)} is not among {known}")
    count = text.count(" ") + 1
    if count == 6:
        raise InvalidCronError(
            f"{shown(expression)} has six fields, and there are no seconds; write five: {FIELDS}"
        )
    if count != 5:
        raise InvalidCronError(f"{shown(expression)} has {count} fields instead of five: {FIELDS}")
    return text


def parse_zone(tz: object) -> tuple[str, tzinfo]:
    """Return the name of a time zone and the zone itself, or raise InvalidCronError."""
    name = tz.key if isinstance(tz, ZoneInfo) else tz
    if not isinstance(name, str) or not 0 < len(name) <= CRON_ZONE_LENGTH_MAX:
        raise InvalidCronError(f'tz is a name such as "Europe/Berlin", got {shown(tz)}')
    if name == "UTC":
        return name, UTC
    try:
        return name, ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # OSError: the name of a folder beside the zones.
        raise InvalidCronError(
            f'no time zone is called {shown(name)}; write one such as "Europe/Berlin"; if this '
            f"machine has no zones: pip install tzdata"
        ) from None


GRACE = timedelta(seconds=CRON_GRACE)


class Missed(StrEnum):
    """What happens to ticks that no worker fired in time."""

    LATEST = "latest"
    """One job for the most recent of them."""
    SKIP = "skip"
    """None."""
    CATCH_UP = "catch_up"
    """One job for each of the last few, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """What an app declares: when, what, and the policy for missed ticks."""

    name: str
    schedule: Schedule
    template: NewJob
    missed: Missed = Missed.LATEST
    catch_up: int = CATCH_UP_DEFAULT

    def job(self, tick: datetime) -> NewJob:
        """Return the job of one tick; its key prevents a second one."""
        job = msgspec.structs.replace(self.template, key=Key(tick_key(self.name, tick)))
        return marked(job, self.name)


class Due(NamedTuple):
    """The ticks to fire now, oldest first, and the next one."""

    ticks: list[datetime]
    next_tick: datetime | None


def due(cron: Cron, *, next_tick: datetime, now: datetime) -> Due:
    """Return the due ticks of *cron*; none from *next_tick* on was fired.

    A stored tick may not be one of the schedule's: time zones change.
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
    return f"{CRON_KEYS}{name}:{tick:%Y-%m-%dT%H:%M:%SZ}"


check_cron_name = partial(
    check_name, what="the name of a cron", limit=CRON_NAME_LENGTH_MAX, error=ConfigurationError
)
parse_missed = partial(check_choice, name="missed", among=Missed)
check_catch_up = partial(check_count, name="catch_up", minimum=1, maximum=CATCH_UP_MAX)
