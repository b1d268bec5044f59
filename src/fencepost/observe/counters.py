"""Counters in the process: cheap to add to from any thread, read as a snapshot."""

from __future__ import annotations

import threading
from collections import defaultdict

Labels = tuple[tuple[str, str], ...]


class Counters:
    """Sums by name and labels."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sums: defaultdict[tuple[str, Labels], float] = defaultdict(float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add *amount* to the counter of this name and these labels."""
        key = (name, _labels(labels))
        with self._mutex:
            self._sums[key] += amount

    def get(self, name: str, **labels: str) -> float:
        """Return a counter; without labels, the sum over all of them."""
        with self._mutex:
            if labels:
                return self._sums.get((name, _labels(labels)), 0)
            return sum(total for (each, _), total in self._sums.items() if each == name)

    def snapshot(self) -> dict[str, float]:
        """Return every counter as ``name{label=value}``."""
        with self._mutex:
            items = sorted(self._sums.items())
        return {_show(name, labels): total for (name, labels), total in items}


def _labels(labels: dict[str, str]) -> Labels:
    return tuple(labels.items() if len(labels) < 2 else sorted(labels.items()))


def _show(name: str, labels: Labels) -> str:
    inside = ",".join(f"{label}={value}" for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name
