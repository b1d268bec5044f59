"""Timings: noted by the thousand from any thread, read as buckets."""

from __future__ import annotations

import math
import threading
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import METRIC_LABELS_MAX
from fencepost.observe.counters import BOUNDS, Histogram, Timing

LANE = ("t", "q")


def test_a_value_on_a_bound_lies_below_it() -> None:
    """As `le` promises."""
    timing = Timing()
    timing.note(LANE, [0.2500001, 0.25])
    [(lane, histogram)] = timing.read()
    assert lane == LANE
    assert list(accumulate(histogram.counts))[BOUNDS.index(0.25)] == 1
    assert list(accumulate(histogram.counts))[BOUNDS.index(0.5)] == 2


@given(st.lists(st.floats(0, 10_000), max_size=50))
def test_buckets_hold_what_counting_one_by_one_would_find(values: list[float]) -> None:
    histogram = Histogram()
    histogram.add(list(values))
    below = list(accumulate(histogram.counts))
    assert below == [sum(value <= bound for value in values) for bound in (*BOUNDS, math.inf)]
    assert histogram.count == len(values)
    assert math.isclose(histogram.sum, sum(values))


def test_nothing_is_lost_between_threads_that_note_and_one_that_reads() -> None:
    timing = Timing()

    def note() -> None:
        for _ in range(3_000):
            timing.note(LANE, [0.1])

    threads = [threading.Thread(target=note) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        timing.read()
    assert timing.read()[0][1].count == 12_000


def test_lanes_beyond_the_bound_share_one() -> None:
    """S2-38."""
    timing = Timing()
    for number in range(METRIC_LABELS_MAX + 20):
        timing.note((f"t{number}", "q"), [1.0])
    lanes = dict(timing.read())
    assert len(lanes) == METRIC_LABELS_MAX + 1
    assert lanes["other", "other"].count == 20


def test_what_was_read_is_a_copy() -> None:
    timing = Timing()
    timing.note(LANE, [0.1])
    [(_, before)] = timing.read()
    timing.note(LANE, [0.1])
    timing.read()
    assert before.count == 1
