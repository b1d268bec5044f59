"""Death between any two steps of what concerns several partitions; `python -m lab.outbox` has all.

Here each sixtieth call is tried, and a part that differs with the first.
"""

from __future__ import annotations

import pytest

from lab.outbox.story import Death, Kind
from lab.outbox.suite import play, run

# Thousands of answers are awaited one by one, each for as long as the machine is busy.
pytestmark = pytest.mark.timeout(300)


def test_nothing_is_lost_and_nothing_done_twice(redis_url: str) -> None:
    report = run(redis_url, stride=60, offset=11)
    assert report.calls > 100
    assert report.deaths > 10
    assert report.failures == []


@pytest.mark.parametrize("kind", Kind)
def test_the_first_steps_of_a_flow_are_all_or_nothing(redis_url: str, kind: Kind) -> None:
    """The calls of the first submission: founding, times, the intent, its parts, its deletion."""
    calls = play(redis_url, None).calls
    intent = calls.index("enqueue")
    deletion = intent + 4
    assert set(calls[intent + 1 : deletion + 1]) == {"partition_write"}
    for number in range(1, deletion + 2):
        story = play(redis_url, Death(number, kind))
        assert (number, story.wrong) == (number, [])
        assert story.has_died


def test_no_more_run_than_the_limit_allows_and_no_room_is_lost(redis_url: str) -> None:
    report = run(redis_url, stride=45, offset=7, name="limits")
    assert report.calls > 100
    assert report.deaths > 10
    assert report.failures == []
