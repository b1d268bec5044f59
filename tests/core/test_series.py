"""Samples, histograms, and the lines that are made from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import SERIES_LANES_MAX, SERIES_LINES_MAX
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.attention import slow
from fencepost.core.stats.lines import Line, Samples, SeriesMetric, choice, lines, span_of
from fencepost.core.stats.series import (
    FINEST,
    SOURCES,
    STEPS,
    LaneSample,
    LaneTotals,
    Sample,
    aligned,
    bucket_of,
    decode_counts,
    decode_sample,
    encode_sample,
    histogram,
    merged,
    percentile,
    sample,
    submitted_since,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEN = timedelta(seconds=10)


def lane(queue: str = "q", type: str = "t", **fields: Any) -> LaneSample:
    counts = dict.fromkeys(
        ("enqueued", "completed", "failed", "dead", "cancelled", "depth", "running"), 0
    )
    return LaneSample(queue=queue, type=type, **{**counts, **fields})


def drawn(
    rows: list[tuple[int, Sample]], *metrics: SeriesMetric, by: str | None = None, **chosen: Any
) -> list[Line]:
    """Return lines of a minute; rows are given by how many steps ago they are."""
    samples = Samples([(NOW - ago * TEN, each) for ago, each in rows], span_of(60, 10, NOW))
    name_of = choice(by, **{"queue": None, "type": None, "within": None, **chosen})
    return lines(samples, metrics, name_of, is_named=by is not None)


@given(st.floats(1e-4, 1e5))
def test_a_time_comes_back_within_nine_percent(seconds: float) -> None:
    found = percentile({bucket_of(seconds): 1}, 0.5)
    assert found is not None
    assert abs(found / seconds - 1) < 0.1


def test_percentiles_are_those_of_the_ranks() -> None:
    times = [0.01] * 98 + [1.0, 100.0]
    found = histogram(times)
    assert sum(found.values()) == 100
    for share, expected in ((0.5, 0.01), (0.98, 0.01), (0.99, 1.0), (1.0, 100.0)):
        assert percentile(found, share) == pytest.approx(expected, rel=0.1)
    assert percentile({}, 0.5) is None
    assert bucket_of(0.0) == bucket_of(-1.0) == 0
    assert bucket_of(1e300) < 128


def test_counts_are_differences_and_a_missing_sample_loses_none() -> None:
    rows = [(n, Sample([lane(completed=total)])) for n, total in ((6, 5), (5, 7), (3, 17), (2, 17))]
    (line,) = drawn(rows, SeriesMetric.COMPLETED)
    assert line.values == [2, None, 10, 0, None, None]


def test_the_first_sample_of_all_counts_nothing_and_shows_depths() -> None:
    (completed, depth) = drawn(
        [(1, Sample([lane(completed=900, depth=3)]))], SeriesMetric.COMPLETED, SeriesMetric.DEPTH
    )
    assert completed.values == [None] * 6
    assert depth.values == [None, None, None, None, 3, None]


def test_a_new_lane_counts_from_nothing_and_a_total_that_falls_is_no_count() -> None:
    """A job that is retried by hand leaves its terminal state."""
    rows = [
        (2, Sample([lane(failed=5)])),
        (1, Sample([lane(failed=3), lane(queue="new", failed=4)])),
    ]
    (line,) = drawn(rows, SeriesMetric.FAILED)
    assert line.values[4] == 4
    folded = [(2, Sample([lane()], is_folded=True)), rows[1]]
    (line,) = drawn(folded, SeriesMetric.FAILED)
    assert line.values[4] == 3, "it may have been there before, among the small ones"


def test_what_was_submitted_since_a_sample_counts_new_lanes_and_pruned_jobs() -> None:
    before = Sample([lane("a", "x", enqueued=5), lane("b", "x", enqueued=9)])
    totals = [
        LaneTotals("a", "x", {State.RUNNING: 1, State.COMPLETED: 2}, {State.COMPLETED: 4}),
        LaneTotals("a", "new", {State.SCHEDULED: 3}, {}),
        # An import that was undone: nobody submits less than nothing.
        LaneTotals("b", "x", {State.SCHEDULED: 8}, {}),
    ]
    assert submitted_since(before, totals) == 2 + 3
    assert submitted_since(before, totals, "b") == 0
    assert submitted_since(before, totals, "nobody") == 0
    folded = Sample(before.lanes, is_folded=True)
    assert submitted_since(folded, totals) is None


def test_lines_are_by_queue_or_type_and_within_reach() -> None:
    lanes = [lane("a", "x", depth=1), lane("a", "y", depth=2), lane("b", "x", depth=4)]
    rows = [(0, Sample(lanes))]

    def last(**chosen: Any) -> dict[str | None, float | None]:
        return {line.name: line.values[5] for line in drawn(rows, SeriesMetric.DEPTH, **chosen)}

    assert last() == {None: 7}
    assert last(by="queue") == {"a": 3, "b": 4}
    assert last(by="type") == {"x": 5, "y": 2}
    assert last(by="type", queue="a") == {"x": 1, "y": 2}
    assert last(type="x") == {None: 5}
    assert last(by="queue", within=frozenset("a")) == {"a": 3}
    assert last(within=frozenset()) == {None: 0}


def test_times_and_ages_are_those_of_the_chosen_lanes() -> None:
    lanes = [
        lane("a", wait=histogram([1.0] * 9), run=histogram([2.0]), depth=1),
        lane("b", wait=histogram([100.0])),
    ]
    rows = [(0, Sample(lanes, {"a": 33.0, "b": 99.0}))]
    metrics = (
        SeriesMetric.WAIT_P50,
        SeriesMetric.WAIT_P99,
        SeriesMetric.RUN_P99,
        SeriesMetric.OLDEST_AGE,
    )
    values = [line.values[5] for line in drawn(rows, *metrics)]
    assert values == [pytest.approx(each, rel=0.1) for each in (1.0, 100.0, 2.0, 33.0)]
    assert drawn(rows, SeriesMetric.RUN_P99, queue="b")[0].values == [None] * 6


def test_a_coarse_sample_has_the_last_totals_the_highest_depths_and_all_times() -> None:
    first = Sample([lane(completed=1, depth=9, wait={3: 1}), lane("gone")], {"q": 5.0})
    last = Sample([lane(completed=8, depth=2, wait={3: 2, 4: 1})], {"q": 1.0})
    both = merged([first, last])
    assert both.lanes == [lane(completed=8, depth=9, wait={3: 3, 4: 1}), lane("gone")]
    assert both.oldest == {"q": 5.0}
    assert decode_sample(encode_sample(both)) == both
    counts = decode_counts(encode_sample(both))
    assert [(each.queue, each.completed, each.depth) for each in counts.lanes] == [
        ("q", 8, 9),
        ("gone", 0, 0),
    ]
    assert (counts.oldest, counts.is_folded) == ({"q": 5.0}, False)


def test_a_sample_is_bounded_and_says_so() -> None:
    totals = [LaneTotals("q", f"t{n:04}", {State.SCHEDULED: n}, {}) for n in range(300)]
    made = sample(totals, [], [], NOW)
    assert len(made.lanes) == SERIES_LANES_MAX
    assert made.is_folded
    assert made.lanes[0].type == "t0299"
    many = drawn([(0, made)], SeriesMetric.DEPTH, by="type")
    assert len(many) == SERIES_LINES_MAX
    assert many[0].values[5] == 299


def test_a_coarse_step_is_merged_from_one_that_is_kept_for_so_long() -> None:
    assert set(SOURCES) == set(STEPS) - {FINEST}
    for step, source in SOURCES.items():
        assert step % source == 0
        assert STEPS[source] >= step


@pytest.mark.parametrize(
    ("window", "step", "stored", "points", "count"),
    [
        (600, None, 10, 10, 60),
        (3600, None, 30, 30, 120),
        (3601, None, 60, 60, 61),
        (21_600, None, 180, 180, 120),
        (43_200, None, 180, 360, 120),
        (86_400, None, 1200, 1200, 72),
        (604_800, None, 5400, 5400, 112),
        (3600, 25, 30, 30, 120),
        (3600, 60, 60, 60, 60),
        (604_800, 10, 600, 600, 1008),
    ],
)
def test_the_span_is_read_from_the_coarsest_samples_that_will_do(
    window: float, step: float | None, stored: int, points: int, count: int
) -> None:
    span = span_of(window, step, NOW + timedelta(seconds=7))
    assert (span.stored, span.step, span.points) == (stored, points, count)
    assert span.start == aligned(span.start, points)
    assert span.place(span.start + timedelta(seconds=stored)) == 0
    assert span.place(span.start) == -1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.1, None, 0.1, 0.2, 9.0], True),
        ([0.1, 0.1, 0.1, 0.1, 0.9], False),
        ([2.0, 2.0, 2.0, 2.0, 9.0], False),
        ([0.1, 0.1, 9.0], False),
        ([None, None], False),
        ([], False),
    ],
    ids=["far above", "short", "usual", "unknown", "none", "empty"],
)
def test_a_wait_far_above_the_usual_needs_somebody(
    values: list[float | None], expected: bool
) -> None:
    line = Line(metric=SeriesMetric.WAIT_P99, name="mail", values=values)
    found = list(slow([line], NOW, 300.0))
    assert bool(found) is expected
    for item in found:
        assert (item.code, item.target.name) == ("wait_high", "mail")
        assert item.since == NOW + timedelta(seconds=300 * (len(values) - 1))
