"""Counters in the process: cheap to add to from any thread, read as a snapshot."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from fencepost.observe.health import Pulse
from fencepost.observe.histograms import Timing
from fencepost.observe.labels import OTHER, Bounded

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]


class Counters:
    """Sums by name and labels; and the timings beside them."""

    def __init__(self) -> None:
        self.waits = Timing()
        """For how long jobs had been claimable when they were claimed."""
        self.runs = Timing()
        """For how long attempts ran in this process."""
        self.pulse = Pulse()
        self.types: Bounded[str] = Bounded(OTHER)
        """Types of jobs as labels: not all of a thousand types have a counter of their own."""
        self._mutex = threading.Lock()
        self._sums: defaultdict[Key, float] = defaultdict(float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add *amount* to the counter of this name and these labels."""
        key = (name, _labels(labels))
        with self._mutex:
            self._sums[key] += amount

    def add_all(self, amounts: Iterable[tuple[Key, float]]) -> None:
        """Add to counters whose keys were made before: for what is counted with every request."""
        with self._mutex:
            for key, amount in amounts:
                self._sums[key] += amount

    def get(self, name: str, **labels: str) -> float:
        """Return the sum of the counters of this name that have these labels, and any others."""
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
