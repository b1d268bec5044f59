"""What a measurement yields: a value, what it is measured against, and what was aimed at."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Unit = Literal["jobs/s", "ms", "MB", "µs", "bytes", "jobs"]


class Target(msgspec.Struct, frozen=True):
    """A bound on a figure's value or on its ratio."""

    of: Literal["value", "ratio"]
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None

    def is_met(self, figure: Figure) -> bool | None:
        """Tell whether *figure* keeps to this; None if it has no such number."""
        number = figure.value if self.of == "value" else figure.ratio
        if number is None:
            return None
        if self.at_least is not None and number < self.at_least:
            return False
        if self.at_most is not None and number > self.at_most:
            return False
        return self.below is None or number < self.below


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    name: str
    title: str
    unit: Unit
    value: float
    beside: float | None = None
    """The same measured without the framework, or whatever ``beside_what`` says."""
    beside_what: str = "raw"
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    """The lowest and the highest ratio of a round: less apart than these is noise."""
    target: Target | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met(self)


class Failed(msgspec.Struct, frozen=True):
    """A group of figures that could not be measured."""

    names: tuple[str, ...]
    error: str


class Pair(NamedTuple):
    """What two sides did in one round, and how far the ratios of all rounds lay apart."""

    value: float
    beside: float
    spread: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.beside


def pair(values: list[float], besides: list[float]) -> Pair:
    """Return the round whose ratio is the median.

    Not the two medians: they may come from different rounds, in which the machine was as busy with
    something else for one side as it was idle for the other.
    """
    rounds = sorted(map(Pair, values, besides), key=lambda each: each.ratio)
    spread = (rounds[0].ratio, rounds[-1].ratio)
    return rounds[(len(rounds) - 1) // 2]._replace(spread=spread)


def percentile(samples: list[float], fraction: float) -> float:
    """Return the sample below which *fraction* of all samples lie."""
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * fraction), len(ordered) - 1)]
