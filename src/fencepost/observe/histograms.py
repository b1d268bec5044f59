"""How long things took, by type and queue: noted in batches, sorted into buckets at once.

A worker that ends tens of thousands of jobs a second cannot search a bucket for each: a batch is
sorted, and only the bounds of buckets that it fills are looked up in it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

import msgspec

from fencepost.observe.labels import OTHER, Bounded

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0,
)  # fmt: skip
"""Seconds, upper ends included: from a no-op handler to the default execution timeout."""

Lane = tuple[str, str]
"""A type and a queue."""


class Histogram(msgspec.Struct):
    """Values of one lane: how many up to each bound and beyond the last, and their sum."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, values: list[float]) -> None:
        """Add many values, which are sorted in place."""
        values.sort()
        below, count = 0, len(values)
        while below < count:
            place = bisect_left(BOUNDS, values[below])
            is_beyond = place == len(BOUNDS)
            upto = count if is_beyond else bisect_right(values, BOUNDS[place], lo=below)
            self.counts[place] += upto - below
            below = upto
        self.sum += sum(values)


class Timing:
    """One name's histograms."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lanes: Bounded[Lane] = Bounded((OTHER, OTHER))
        self._histograms: defaultdict[Lane, Histogram] = defaultdict(Histogram)

    def note(self, lane: Lane, seconds: list[float]) -> None:
        """Sort in values of one lane, from any thread; the list is the callee's from now on."""
        with self._mutex:
            self._histograms[self._lanes.fold(lane)].add(seconds)

    def read(self) -> list[tuple[Lane, Histogram]]:
        """Return a copy of every histogram, by type and queue."""
        with self._mutex:
            held = sorted(self._histograms.items(), key=itemgetter(0))
            return [(lane, Histogram(list(each.counts), each.sum)) for lane, each in held]


def cumulated(counts: Sequence[int]) -> list[int]:
    """Return for each bound, and at last for all, how many values lie below."""
    total = 0
    below: list[int] = []
    for count in counts:
        total += count
        below.append(total)
    return below
