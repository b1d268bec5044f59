"""Until when content that is not encrypted is read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from fencepost.core.bounds import PLAIN_DAYS_MAX
from fencepost.core.encryption import REFUSE, Plain, parse_plain
from fencepost.errors import ConfigurationError

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_unless_told_it_is_refused() -> None:
    assert not REFUSE.accepts(NOW)
    assert parse_plain("refuse", NOW) == REFUSE


def test_it_is_accepted_to_the_end_of_the_day_that_is_named_and_no_longer() -> None:
    plain = parse_plain(" accept until 2027-01-31 ", NOW)
    assert plain == Plain(date(2027, 1, 31))
    assert plain.accepts(NOW)
    assert plain.accepts(datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC))
    assert not plain.accepts(datetime(2027, 2, 1, tzinfo=UTC))


def test_the_day_is_one_of_utc() -> None:
    plain = Plain(date(2027, 1, 31))
    assert not plain.accepts(datetime(2027, 1, 31, 23, tzinfo=timezone(timedelta(hours=-2))))


def test_a_day_that_has_passed_refuses_and_is_no_error() -> None:
    """An app that names one need not be deployed again on the day after."""
    assert not parse_plain("accept until 2020-01-01", NOW).accepts(NOW)


@pytest.mark.parametrize(
    "given",
    ["", "accept", "accept until", "accept until 2027-02-31", "accept until ever", "Refuse", True],
)
def test_anything_else_is_refused_when_it_is_read(given: object) -> None:
    with pytest.raises(ConfigurationError, match="'refuse' or 'accept until YYYY-MM-DD'"):
        parse_plain(given, NOW)


@pytest.mark.parametrize("of", [lambda day: f"accept until {day}", Plain])
def test_it_cannot_be_accepted_for_ever(of: object) -> None:
    assert callable(of)
    latest = NOW.date() + timedelta(days=PLAIN_DAYS_MAX)
    assert parse_plain(of(latest), NOW).until == latest
    with pytest.raises(ConfigurationError, match=str(latest)):
        parse_plain(of(latest + timedelta(days=1)), NOW)
