"""Rates and times, worked out from jobs that ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import STATS_NAMES_MAX
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.statistics import (
    EndedJob,
    Percentiles,
    Statistics,
    percentiles,
    statistics,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ended(ago: float, *, wait: float = 1.0, run: float = 2.0, **fields: Any) -> EndedJob:
    """Return a job that ended so many seconds ago, after so long a wait and a run."""
    at = NOW - timedelta(seconds=ago)
    started_at = at - timedelta(seconds=run)
    scheduled_at = started_at - timedelta(seconds=wait)
    return EndedJob(
        **{
            "id": "j",
            "type": "mail",
            "queue": "default",
            "state": State.COMPLETED,
            "attempt": 1,
            "created_at": scheduled_at,
            "scheduled_at": scheduled_at,
            "started_at": started_at,
            "completed_at": at,
            "position": 1,
            **fields,
        }
    )


def work_out(jobs: list[EndedJob], **fields: Any) -> Statistics:
    given = {"queues": {}, "types": {}, "is_sampled": False, "submitted_rate": 0.0, **fields}
    return statistics(jobs, now=NOW, window=60.0, **given)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([3.0], Percentiles(3.0, 3.0, 3.0)),
        ([2.0, 1.0], Percentiles(1.0, 2.0, 2.0)),
        ([float(n) for n in range(100, 0, -1)], Percentiles(50.0, 90.0, 99.0)),
        ([float(n) for n in range(1, 1001)], Percentiles(500.0, 900.0, 990.0)),
    ],
)
def test_percentiles_are_nearest_ranks(values: list[float], expected: Percentiles | None) -> None:
    assert percentiles(values) == expected


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_so_many_took_no_longer_as_the_percentile_says(values: list[float]) -> None:
    found = percentiles(values)
    assert found is not None
    for share, bound in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        assert bound in values
        assert sum(value <= bound for value in values) >= share * len(values)
        assert sum(value < bound for value in values) < share * len(values)


def test_nothing_that_ended_is_no_times_and_no_rate() -> None:
    found = work_out([], queues={"q": {State.SCHEDULED: 3}}, submitted_rate=2.5)
    assert (found.wait, found.run, found.ended_rate) == (None, None, 0.0)
    assert (found.submitted_rate, found.sample, found.window) == (2.5, 0, 60.0)
    [queue] = found.queues
    assert (queue.name, queue.counts, queue.ended) == ("q", {State.SCHEDULED: 3}, {})
    assert (queue.wait, queue.run) == (None, None)


def test_figures_are_by_queue_and_by_type_and_in_all() -> None:
    found = work_out(
        [
            ended(1, wait=1.0, run=10.0),
            ended(2, wait=3.0, run=30.0, queue="bulk"),
            ended(3, wait=5.0, run=50.0, queue="bulk", type="report"),
        ],
        queues={"default": {State.COMPLETED: 7}, "idle": {State.DELAYED: 1}},
        types={"mail": {State.COMPLETED: 7, State.FAILED: 1}},
    )
    assert [each.name for each in found.queues] == ["bulk", "default", "idle"]
    assert [each.name for each in found.types] == ["mail", "report"]
    assert found.queues[0].wait == Percentiles(3.0, 5.0, 5.0)
    assert found.queues[0].ended == {State.COMPLETED: 2}
    assert found.queues[0].ended_rate == 2 / 60
    assert found.types[0].run == Percentiles(10.0, 30.0, 30.0)
    assert found.run == Percentiles(30.0, 50.0, 50.0)
    assert found.counts == {State.DELAYED: 1, State.COMPLETED: 7}
    assert found.ended_rate == 3 / 60


def test_only_what_completed_has_times() -> None:
    """How long a cancelled job had been there says nothing of how long jobs run."""
    found = work_out(
        [
            ended(1, run=4.0),
            ended(2, run=900.0, state=State.CANCELLED),
            ended(3, run=900.0, state=State.DEAD_LETTER),
            ended(4, state=State.CANCELLED, started_at=None, scheduled_at=None),
        ]
    )
    assert found.run == Percentiles(4.0, 4.0, 4.0)
    assert found.sample == 4
    assert found.types[0].ended == {
        State.COMPLETED: 1,
        State.DEAD_LETTER: 1,
        State.CANCELLED: 2,
    }


def test_a_sample_tells_the_rate_of_the_time_that_it_covers() -> None:
    found = work_out([ended(seconds) for seconds in (0.0, 5.0, 10.0)], is_sampled=True)
    assert found.window == 10.0
    assert found.ended_rate == 0.3
    assert found.is_sampled
    at_once = work_out([ended(0.0)] * 3, is_sampled=True)
    assert at_once.ended_rate == 3_000.0


def test_a_clock_that_was_set_back_makes_no_negative_times() -> None:
    found = work_out([ended(1, wait=-5.0, run=-1.0)])
    assert found.wait == found.run == Percentiles(0.0, 0.0, 0.0)


def test_of_many_names_the_smallest_are_added_up() -> None:
    """Nobody makes the answer as long as he likes by making up names."""
    names = [f"t{number:04}" for number in range(STATS_NAMES_MAX + 5)]
    counts = {name: {State.SCHEDULED: 1} for name in names} | {"z": {State.FAILED: 9}}
    found = statistics(
        [ended(1, type="never"), ended(1, type="z")],
        now=NOW,
        window=60.0,
        is_sampled=False,
        queues={"default": {State.SCHEDULED: 1}},
        types=counts,
        submitted_rate=0.0,
    )
    by_name = {each.name: each for each in found.types}
    assert len(by_name) == STATS_NAMES_MAX
    assert by_name["z"].counts == {State.FAILED: 9}
    assert by_name["z"].ended == {State.COMPLETED: 1}
    # 1,005 and z and never: 999 have their own place, and of the last 8 one has ended.
    assert by_name["other"].counts[State.SCHEDULED] + by_name["other"].ended_rate * 60 == 8
    assert [each.name for each in found.queues] == ["default"]
