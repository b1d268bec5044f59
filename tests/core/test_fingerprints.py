"""Which failures are alike, and which rise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencepost.core.fingerprints import grouped, is_rising, mark_of, trend_of
from fencepost.core.job.job import Category, DeadLetter, Failure
from fencepost.core.job.lifecycle import State

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def letter(traceback: str | None = None, *, at: datetime = NOW, **fields: Any) -> DeadLetter:
    failure = Failure(
        Category.PERMANENT,
        fields.pop("message", "no"),
        code=fields.pop("code", None),
        exception=fields.pop("exception", "KeyError"),
        traceback=traceback,
    )
    given = {"type": "t", "queue": "q", "job_id": "j", **fields}
    return DeadLetter(
        state=State.DEAD_LETTER, attempts=1, failure=failure, completed_at=at, **given
    )


def trace(*frames: tuple[str, int, str]) -> str:
    lines = [f'  File "{path}", line {line}, in {name}\n    x()\n' for path, line, name in frames]
    return "Traceback (most recent call last):\n" + "".join(lines) + "KeyError: 'x'\n"


OWN = ("/srv/app/shop/mail.py", 41, "deliver")
LIBRARY = ("/srv/app/.venv/lib/python3.12/site-packages/httpx/_client.py", 9, "send")
STANDARD = ("/usr/lib/python3.12/json/decoder.py", 337, "decode")


@pytest.mark.parametrize(
    ("frames", "frame"),
    [
        ([OWN], "app/shop/mail.py:41 in deliver"),
        ([OWN, LIBRARY, STANDARD], "app/shop/mail.py:41 in deliver"),
        ([("/srv/app/shop/mail.py", 1, "run"), OWN, LIBRARY], "app/shop/mail.py:41 in deliver"),
        ([STANDARD], "python3.12/json/decoder.py:337 in decode"),
        ([], None),
    ],
)
def test_the_innermost_frame_of_ones_own_code_is_shown(
    frames: list[tuple[str, int, str]], frame: str | None
) -> None:
    assert mark_of(letter(trace(*frames))).frame == frame


def test_what_differs_by_release_job_or_machine_is_the_same_failure() -> None:
    alike = [
        letter(trace(OWN, LIBRARY)),
        letter(trace(("/srv/app/shop/mail.py", 99, "deliver"))),
        letter(trace(("/mnt/x/app/shop/mail.py", 41, "deliver")), message="other"),
        letter(trace(OWN), queue="other", job_id="k"),
    ]
    assert len({mark_of(each).group for each in alike}) == 1


def test_other_types_errors_functions_and_codes_are_other_failures() -> None:
    others = [
        letter(trace(OWN)),
        letter(trace(OWN), type="u"),
        letter(trace(OWN), exception="ValueError"),
        letter(trace(("/srv/app/shop/mail.py", 41, "collect"))),
        letter(None),
        letter(None, code="rejected"),
        letter(None, exception=None),
    ]
    assert len({mark_of(each).group for each in others}) == len(others)


def test_a_hostile_traceback_is_read_in_no_time() -> None:
    for text in ('  File "' * 5_000, '  File "x", line 1, in ' * 3_000, "\ud800" * 1_000):
        assert mark_of(letter(text, exception="\udfff")).group


def test_the_trend_counts_by_the_hour_and_the_future_as_now() -> None:
    hours = [0, 0.99, 1, 23.9, 24, 100, -5]
    trend = trend_of((NOW - timedelta(hours=hour) for hour in hours), NOW)
    assert trend == [1, *[0] * 21, 1, 3]


@pytest.mark.parametrize(
    ("before", "latest", "expected"),
    [(0, 4, False), (0, 5, True), (23, 5, False), (23, 6, True), (2300, 500, False)],
)
def test_five_times_the_usual_is_rising(before: int, latest: int, expected: bool) -> None:
    assert is_rising([before, *[0] * 22, latest]) is expected


def test_rising_groups_come_first_and_then_the_most_recent() -> None:
    hour = timedelta(hours=1)
    letters = [
        *[letter(type="old", at=NOW - 5 * hour)] * 9,
        letter(type="new", at=NOW),
        *[letter(type="rising", at=NOW - hour / 2)] * 5,
    ]
    groups = grouped(map(mark_of, letters), NOW)
    assert [group.type for group in groups] == ["rising", "new", "old"]
