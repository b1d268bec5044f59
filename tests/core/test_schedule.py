"""When a cron ticks: both edges of daylight saving, odd days, and ticks long past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.cron import SHORTHANDS, Schedule, parse_schedule, parse_zone
from fencepost.errors import ConfigurationError, InvalidCronError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks(expression: str, tz: str, start: str, count: int) -> list[str]:
    """Return the next ticks as UTC, to the minute."""
    found = islice(parse_schedule(expression, tz).after(at(start)), count)
    return [f"{tick:%Y-%m-%d %H:%M}" for tick in found]


@pytest.mark.parametrize(
    ("expression", "tz", "start", "expected"),
    [
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-03-28 00:00",
            ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
            id="in spring, a time in the gap comes right behind it, once",
        ),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-24 00:00",
            ["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"],
            id="in autumn, a time that comes twice ticks the first time only",
        ),
        pytest.param(
            "30 2 * * *", "America/New_York", "2026-03-07 12:00",
            ["2026-03-08 07:00", "2026-03-09 06:30"],
            id="spring in New York",
        ),
        pytest.param(
            "30 1 * * *", "America/New_York", "2026-10-31 12:00",
            ["2026-11-01 05:30", "2026-11-02 06:30"],
            id="autumn in New York",
        ),
        pytest.param(
            "0,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00",
            ["2026-03-29 01:00", "2026-03-30 00:00"],
            id="two times in one gap are one tick",
        ),
        pytest.param(
            "*/30 * * * *", "Europe/Berlin", "2026-10-24 23:50",
            ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30",
             "2026-10-25 02:00"],
            id="every half hour goes by real time through the hour that comes twice",
        ),
        pytest.param(
            "*/30 * * * *", "Europe/Berlin", "2026-03-29 00:20",
            ["2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"],
            id="and through the hour that does not come",
        ),
        pytest.param(
            "0 9 * * 1-5", "Europe/Berlin", "2026-03-27 08:00",
            ["2026-03-30 07:00"],
            id="nine o'clock stays nine o'clock",
        ),
        pytest.param(
            "0 0 29 2 *", "UTC", "2026-01-01 00:00",
            ["2028-02-29 00:00", "2032-02-29 00:00"],
            id="a leap day",
        ),
        pytest.param(
            "0 0 29 2 *", "UTC", "2096-03-01 00:00", ["2104-02-29 00:00"],
            id="a leap day over a century without one",
        ),
        pytest.param(
            "0 0 31 * *", "UTC", "2026-01-31 00:00",
            ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00", "2026-08-31 00:00"],
            id="months without a 31st are passed over",
        ),
        pytest.param(
            "0 0 L * *", "UTC", "2026-01-31 00:00", ["2026-02-28 00:00", "2026-03-31 00:00"],
            id="the last day of a month",
        ),
        pytest.param(
            "0 0 13 * 5", "UTC", "2026-02-01 00:00",
            ["2026-02-06 00:00", "2026-02-13 00:00", "2026-02-20 00:00"],
            id="a day of the month or one of the week, as cron has it",
        ),
        pytest.param(
            "*/30 1 29 3 *", "Asia/Beirut", "2026-03-01 00:00",
            ["2026-03-28 22:00", "2026-03-28 22:30", "2027-03-28 22:00"],
            id="the hour behind a midnight that does not come",
        ),
        pytest.param(
            "*/20 * 6 9 *", "America/Santiago", "2026-09-01 00:00",
            ["2026-09-06 04:00", "2026-09-06 04:20"],
            id="a day that begins at one o'clock",
        ),
        pytest.param(
            "@weekly", "UTC", "2026-01-01 00:00", ["2026-01-04 00:00"], id="a shorthand",
        ),
    ],
)  # fmt: skip
def test_a_schedule_ticks_when_a_clock_in_its_zone_shows_it(
    expression: str, tz: str, start: str, expected: list[str]
) -> None:
    assert ticks(expression, tz, start, len(expected)) == expected


def test_in_the_second_of_two_equal_hours_nothing_is_repeated() -> None:
    """A worker that starts at 02:10 for the second time must not fire the 02:30 of the first."""
    assert ticks("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", 1) == ["2026-10-26 01:30"]


def test_a_tick_is_later_than_what_it_is_asked_after() -> None:
    schedule = parse_schedule("0 9 * * *")
    nine = at("2026-01-01 09:00")
    instant = timedelta(microseconds=1)
    assert schedule.next_after(nine - instant) == nine
    assert schedule.next_after(nine) == nine + timedelta(days=1)
    assert schedule.next_after(nine + instant) == nine + timedelta(days=1)


def test_at_the_end_of_the_calendar_there_is_no_tick() -> None:
    assert parse_schedule("0 0 1 1 *").next_after(at("9999-06-01 00:00")) is None


SCHEDULES = [
    parse_schedule(expression, tz)
    for expression in ("* * * * *", "30 2 * * *", "*/7 1-3 * * 6,0", "0 0 31 * *", "5 */3 1 * *")
    for tz in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut")
]
moments = st.timedeltas(timedelta(0), timedelta(days=4_000)).map(
    lambda past: datetime(2020, 1, 1, tzinfo=UTC) + past
)


@given(st.sampled_from(SCHEDULES), moments)
def test_ticks_are_whole_minutes_in_order_a_minute_apart(
    schedule: Schedule, moment: datetime
) -> None:
    found = [moment, *islice(schedule.after(moment), 20)]
    assert all(early < late for early, late in pairwise(found))
    assert all(late - early >= timedelta(minutes=1) for early, late in pairwise(found[1:]))
    assert all((tick.second, tick.microsecond) == (0, 0) for tick in found[1:])


@given(
    st.sampled_from(SCHEDULES),
    moments,
    st.timedeltas(timedelta(0), timedelta(days=40)),
    st.integers(1, 30),
)
def test_the_last_ticks_are_those_that_a_walk_through_all_would_end_with(
    schedule: Schedule, since: datetime, length: timedelta, count: int
) -> None:
    until = since + length
    walked = []
    for tick in schedule.after(since - timedelta(microseconds=1)):
        if tick > until:
            break
        walked.append(tick)
    assert schedule.last(count, since=since, until=until) == walked[-count:]


@pytest.mark.parametrize("expression", ["* * * * *", "* * * 1 *", "0 0 29 2 *"])
def test_the_last_ticks_of_half_a_century_are_found_without_walking_through_it(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = parse_schedule(expression, "Europe/Berlin")
    walked = 0
    after = Schedule.after

    def counting(self: Schedule, moment: datetime):  # type: ignore[no-untyped-def]  # a generator
        nonlocal walked
        for tick in after(self, moment):
            walked += 1
            yield tick

    monkeypatch.setattr(Schedule, "after", counting)
    found = schedule.last(10, since=at("1976-01-01 00:00"), until=at("2026-09-01 00:00"))
    assert len(found) == 10
    assert walked < 2_000


def test_a_period_without_a_tick_has_none() -> None:
    schedule = parse_schedule("0 9 * * *")
    assert schedule.last(5, since=at("2026-01-01 10:00"), until=at("2026-01-01 12:00")) == []


def test_both_ends_of_a_period_belong_to_it() -> None:
    schedule = parse_schedule("0 * * * *")
    early, late = at("2026-01-01 10:00"), at("2026-01-01 11:00")
    assert schedule.last(5, since=early, until=late) == [early, late]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "is text such as"),
        (None, "is text such as"),
        (5, "is text such as"),
        ("* * * *", "has 4 fields instead of five"),
        ("* * * * * *", "has six fields, and there are no seconds"),
        ("0 0 0 * * * *", "has 7 fields"),
        ("60 * * * *", "Bad minute"),
        ("* 24 * * *", "Bad hour"),
        ("* * 0 * *", "Bad day-of-month"),
        ("* * * 13 *", "Bad month"),
        ("* * * * 8", "Bad day-of-week"),
        ("*/0 * * * *", "Bad minute"),
        ("x * * * *", "Bad minute"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 0 */31 2 MON#5", "never comes"),
        ("@reboot", "is not among @yearly"),
        ("0 " * 200, "may have 256 characters"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(expression: object, said: str) -> None:
    with pytest.raises(InvalidCronError, match=said) as refused:
        parse_schedule(expression)
    assert refused.value.code == "invalid_cron"
    assert isinstance(refused.value, ConfigurationError)


@pytest.mark.parametrize(
    "tz", ["", "Berlin", "Europe", "../zone", "/etc/passwd", "a\0b", "x" * 500, None, 3, b"UTC"]
)
def test_a_zone_that_nobody_knows_is_refused(tz: object) -> None:
    with pytest.raises(InvalidCronError, match="Europe/Berlin"):
        parse_schedule("0 9 * * *", tz)


def test_a_zone_may_be_given_as_one() -> None:
    assert parse_zone(ZoneInfo("Asia/Tokyo")) == ("Asia/Tokyo", ZoneInfo("Asia/Tokyo"))


def test_spaces_do_not_matter() -> None:
    assert parse_schedule("  0  9\t* * 1-5 ") == parse_schedule("0 9 * * 1-5")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0 9 * * 1-5", "Every weekday at 09:00"),
        ("30 2 * * *", "Every day at 02:30"),
        ("0 4 * * 0", "Every Sunday at 04:00"),
        ("0 9 * * 1,3", "At 09:00 on Monday and Wednesday"),
        ("*/15 7-19 * * 1-5", "Every 15 minutes from 07:00 through 19:59 on weekdays"),
        ("*/2 * * * *", "Every 2 minutes"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/7 * * * *", "Every seventh minute of every hour"),
        ("0 0 31 * *", "At 00:00 on the 31st day of every month"),
        ("0 0 11,12,22,23 * *", "At 00:00 on the 11th, the 12th, the 22nd, and the 23rd day"),
        ("@hourly", "At the start of every hour"),
    ],
)
def test_a_schedule_is_described_in_english(expression: str, text: str) -> None:
    assert parse_schedule(expression).describe().startswith(text)


@pytest.mark.parametrize("name", SHORTHANDS)
def test_every_shorthand_is_a_schedule(name: str) -> None:
    schedule = parse_schedule(name.upper())
    assert schedule.expression == name
    assert schedule.describe()
    assert schedule.next_after(at("2026-01-01 00:00")) is not None


ZONES = ["Europe/Berlin", "America/New_York", "America/Havana", "America/Santiago", "Africa/Cairo"]


def shift(zone: ZoneInfo, months: range) -> datetime:
    """Return the day in these months of 2026 on which a zone's clocks change."""
    days = [datetime(2026, month, day, 12, tzinfo=UTC) for month in months for day in range(1, 29)]
    for early in days:
        for late in (early + timedelta(days=n) for n in (1, 2, 3, 4)):
            if zone.utcoffset(early) != zone.utcoffset(late):
                return early
    raise AssertionError(f"the clocks of {zone} do not change")


@pytest.mark.parametrize(
    "expression", ["*/30 1 * * *", "*/20 * * * 0,5", "* 0-3 * * *", "7 * * * *"]
)
@pytest.mark.parametrize("months", [range(3, 5), range(8, 12)], ids=["spring", "autumn"])
@pytest.mark.parametrize("tz", ZONES)
def test_what_goes_by_real_time_ticks_at_every_minute_that_a_clock_shows(
    tz: str, months: range, expression: str
) -> None:
    """Minute by minute through the change, whatever the hour at which a zone has it."""
    zone = ZoneInfo(tz)
    start = shift(zone, months).replace(hour=0)
    minutes = [start + timedelta(minutes=n) for n in range(1, 6 * 24 * 60)]
    parts = CronSim(expression, start)

    def shows(minute: datetime) -> bool:
        local = minute.astimezone(zone)
        in_fields = local.minute in parts.minutes and local.hour in parts.hours
        return in_fields and parts.match_day(local.date())

    expected = [minute for minute in minutes if shows(minute)]
    assert parse_schedule(expression, tz)._between(start, minutes[-1], 10_000) == expected
