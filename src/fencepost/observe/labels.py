"""Label values of metrics, bounded: whoever makes up names cannot fill a monitor's disk."""

from __future__ import annotations

from typing import Generic, TypeVar

from fencepost.core.bounds import METRIC_LABELS_MAX

T = TypeVar("T")

OTHER = "other"
"""Stands for every value beyond the bound."""


class Bounded(Generic[T]):
    """The first so many values that were met, each as it is; all later ones are *other*."""

    def __init__(self, other: T, most: int = METRIC_LABELS_MAX) -> None:
        self._other = other
        self._most = most
        self._known: set[T] = set()

    def fold(self, value: T) -> T:
        """Return *value*, or what stands for it. Two threads at once may let one more in each."""
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return self._other
        self._known.add(value)
        return value
