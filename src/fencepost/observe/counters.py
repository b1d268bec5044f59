"""Counters and timings in the process: cheap to add to from any thread, read as a snapshot."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Generic, TypeVar

import msgspec

from fencepost.core.bounds import METRIC_LABELS_MAX
from fencepost.observe.health import Pulse

T = TypeVar("T")

OTHER = "other"
"""The label value of everything beyond the bound."""


class Bounded(Generic[T]):
    """The first values that are met, each as it is; all later ones become *other*.

    Label values are bounded because names made up by users could fill a monitor's disk.
    """

    def __init__(self, other: T, most: int = METRIC_LABELS_MAX) -> None:
        self._other = other
        self._most = most
        self._known: set[T] = set()

    def fold(self, value: T) -> T:
        """Return *value* or *other*. Two threads at once may each let one more in."""
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return self._other
        self._known.add(value)
        return value


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
    """The histograms of one name, by type and queue.

    A worker that ends tens of thousands of jobs a second cannot search a bucket for each. So times
    are noted in batches: a batch is sorted, and only the bounds of buckets that it fills are
    looked up in it.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lanes: Bounded[Lane] = Bounded((OTHER, OTHER))
        self._histograms: defaultdict[Lane, Histogram] = defaultdict(Histogram)

    def note(self, lane: Lane, seconds: list[float]) -> None:
        """Sort in values of one lane, from any thread. It takes over the list."""
        with self._mutex:
            self._histograms[self._lanes.fold(lane)].add(seconds)

    def read(self) -> list[tuple[Lane, Histogram]]:
        """Return a copy of every histogram, by type and queue."""
        with self._mutex:
            held = sorted(self._histograms.items(), key=itemgetter(0))
            return [(lane, Histogram(list(each.counts), each.sum)) for lane, each in held]


Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]


class Counters:
    """Sums by name and labels, and the timings."""

    def __init__(self) -> None:
        self.waits = Timing()
        """How long jobs had been claimable when they were claimed."""
        self.runs = Timing()
        """How long attempts ran in this process."""
        self.pulse = Pulse()
        self.types: Bounded[str] = Bounded(OTHER)
        """Types of jobs as labels: not each of a thousand types has its own counter."""
        self._mutex = threading.Lock()
        self._sums: defaultdict[Key, float] = defaultdict(float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add *amount* to the counter of this name and these labels."""
        key = (name, _labels(labels))
        with self._mutex:
            self._sums[key] += amount

    def add_all(self, amounts: Iterable[tuple[Key, float]]) -> None:
        """Add to counters by ready-made keys: for what is counted with every request."""
        with self._mutex:
            for key, amount in amounts:
                self._sums[key] += amount

    def get(self, name: str, **labels: str) -> float:
        """Return the sum of the counters of this name that have at least these labels."""
        asked = set(labels.items())
        return sum(total for each, held, total in self.read() if each == name and asked <= {*held})

    def read(self) -> list[tuple[str, Labels, float]]:
        """Return name, labels and sum of every counter, in order."""
        with self._mutex:
            items = sorted(self._sums.items())
        return [(name, labels, total) for (name, labels), total in items]

    def snapshot(self) -> dict[str, float]:
        """Return every counter as ``name{label=value}``."""
        return {_show(name, labels): total for name, labels, total in self.read()}


def key_of(name: str, **labels: str) -> Key:
    """Return the key of the counter of this name and these labels."""
    return name, _labels(labels)


def _labels(labels: dict[str, str]) -> Labels:
    return tuple(labels.items() if len(labels) < 2 else sorted(labels.items()))


def _show(name: str, labels: Labels) -> str:
    inside = ",".join(f"{label}={value}" for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name
