"""When a cron's time has come: an expression in a time zone, and its ticks as UTC times.

On the days when the clocks change, an expression with fixed hours and minutes ticks exactly once:
in spring, one that falls into the gap ticks right behind it; in autumn, at the first of two times.
One whose hour or minute begins with a ``*`` goes by real time: ``*/15 * * * *`` ticks every quarter
of an hour, also through the hour that comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from fencepost.core.bounds import CRON_EXPRESSION_LENGTH_MAX, CRON_ZONE_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.errors import InvalidCronError

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
"""Whatever comes at all comes within the half century that is looked through from here."""
MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


class Calendar(CronSim):
    """Looks through a day from its midnight on; where the clocks skip that, from right behind it.

    From a midnight that does not exist, the hour after the gap would be passed over.
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
                # In the second of two equal hours the library begins with what the first has had.
                if tick > last:
                    last = tick
                    yield tick
        except OverflowError:
            return  # the calendar has ended

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first tick later than *moment*; None if there is none any more."""
        return next(self.after(moment), None)

    def last(self, count: int, *, since: datetime, until: datetime) -> list[datetime]:
        """Return the last *count* ticks from *since* to *until*, both included, oldest first.

        However long that was: a year of minutes is not walked through for its last ten.
        """
        assert count >= 1
        most = 4 * count
        early = since - INSTANT
        found = self._between(early, until, count + 1)
        if len(found) <= count:
            return found
        # A tick comes once a minute at the most, so that later than this there are too few.
        late = until - count * MINUTE
        start = late
        while len(found := self._between(start, until, most)) < count:
            late, start = start, until - min(2 * (until - start), until - early)
        while len(found) == most:  # too many to be sure that they are the last: come closer
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
        return re.sub(r"(?<!1)(1|2|3)th\b", _ordinal, text)

    def local(self, tick: datetime) -> datetime:
        """Return *tick* as a clock in the schedule's zone shows it."""
        return tick.astimezone(self.zone)


def _ordinal(match: re.Match[str]) -> str:
    return match[1] + {"1": "st", "2": "nd", "3": "rd"}[match[1]]


def parse_schedule(expression: object, tz: object = "UTC") -> Schedule:
    """Return the schedule, or raise InvalidCronError if expression or zone makes no sense."""
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
        # OSError: the name of a folder, of which there are some beside the zones.
        raise InvalidCronError(
            f'no time zone is called {shown(name)}; write one such as "Europe/Berlin", and if '
            f"this machine knows none at all: pip install tzdata"
        ) from None
