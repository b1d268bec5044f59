"""What is due of a cron, and what becomes of ticks that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencepost.core.bounds import CATCH_UP_MAX, CRON_GRACE, CRON_NAME_LENGTH_MAX
from fencepost.core.cron import (
    Cron,
    Missed,
    check_catch_up,
    check_cron_name,
    due,
    parse_missed,
    parse_schedule,
    tick_key,
)
from fencepost.core.job.idempotency import check_key
from fencepost.core.job.job import Body, NewJob
from fencepost.errors import ConfigurationError

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
DAY = timedelta(days=1)
GRACE = timedelta(seconds=CRON_GRACE)
INSTANT = timedelta(microseconds=1)


def cron(expression: str = "0 9 * * *", missed: Missed = Missed.LATEST, catch_up: int = 10) -> Cron:
    return Cron(
        name="report",
        schedule=parse_schedule(expression),
        template=NewJob(type="report", payload=Body(b'{"a":1}'), queue="q"),
        missed=missed,
        catch_up=catch_up,
    )


@pytest.mark.parametrize("missed", Missed)
def test_before_its_time_nothing_is_due(missed: Missed) -> None:
    assert due(cron(missed=missed), next_tick=NINE, now=NINE - INSTANT) == ([], NINE)


@pytest.mark.parametrize("missed", Missed)
def test_at_its_time_one_tick_is_due_under_every_policy(missed: Missed) -> None:
    assert due(cron(missed=missed), next_tick=NINE, now=NINE) == ([NINE], NINE + DAY)


@pytest.mark.parametrize(
    ("missed", "catch_up", "expected"),
    [
        (Missed.LATEST, 10, [NINE]),
        (Missed.SKIP, 10, []),
        (Missed.CATCH_UP, 10, [NINE - 3 * DAY, NINE - 2 * DAY, NINE - DAY, NINE]),
        (Missed.CATCH_UP, 2, [NINE - DAY, NINE]),
    ],
)
def test_after_three_days_of_downtime_the_policy_decides(
    missed: Missed, catch_up: int, expected: list[datetime]
) -> None:
    now = NINE + timedelta(hours=1)
    answer = due(cron(missed=missed, catch_up=catch_up), next_tick=NINE - 3 * DAY, now=now)
    assert answer == (expected, NINE + DAY)


def test_a_tick_within_its_grace_was_not_missed() -> None:
    skipping = cron(missed=Missed.SKIP)
    assert due(skipping, next_tick=NINE, now=NINE + GRACE - INSTANT).ticks == [NINE]
    assert due(skipping, next_tick=NINE, now=NINE + GRACE) == ([], NINE + DAY)


def test_of_a_long_downtime_skipping_still_fires_the_tick_that_is_just_due() -> None:
    skipping = cron("* * * * *", Missed.SKIP)
    now = NINE + timedelta(seconds=59)
    assert due(skipping, next_tick=NINE - DAY, now=now) == ([NINE], NINE + GRACE)


def test_a_year_of_minutes_is_caught_up_with_only_as_far_as_allowed() -> None:
    answer = due(cron("* * * * *", Missed.CATCH_UP, 3), next_tick=NINE - 365 * DAY, now=NINE)
    minute = timedelta(minutes=1)
    assert answer == ([NINE - 2 * minute, NINE - minute, NINE], NINE + minute)


def test_a_stored_tick_that_the_schedule_does_not_know_fires_nothing() -> None:
    """The rules of a zone have changed since it was worked out."""
    early = NINE - timedelta(hours=1)
    assert due(cron(), next_tick=early, now=early) == ([], NINE)


def test_the_job_of_a_tick_is_the_template_under_a_key_of_its_own() -> None:
    job = cron().job(NINE)
    assert (job.type, job.queue, job.payload) == ("report", "q", Body(b'{"a":1}'))
    assert job.key is not None
    assert job.key.value == "cron:report:2026-01-05T09:00:00Z"
    assert job.key.window


def test_the_longest_name_leaves_room_for_the_tick() -> None:
    name = check_cron_name("n" * CRON_NAME_LENGTH_MAX)
    assert check_key(tick_key(name, NINE))


@pytest.mark.parametrize("name", ["", "n" * (CRON_NAME_LENGTH_MAX + 1), "a\nb", None, 3])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError, match="the name of a cron"):
        check_cron_name(name)


def test_a_policy_is_named_or_refused() -> None:
    assert [parse_missed(each.value) for each in Missed] == list(Missed)
    for wrong in ("all", None, 3, ["latest"]):
        with pytest.raises(ConfigurationError, match='"latest", "skip", "catch_up"'):
            parse_missed(wrong)


def test_catching_up_is_bounded() -> None:
    assert check_catch_up(CATCH_UP_MAX) == CATCH_UP_MAX
    for wrong in (0, -1, CATCH_UP_MAX + 1, True, 1.0, "1", None):
        with pytest.raises(ConfigurationError, match="between 1 and 1,000"):
            check_catch_up(wrong)
