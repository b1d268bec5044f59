"""What can be run, how to run a slice of it, and how its time compares with the others'."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.chaos.report import Report as ChaosReport
from lab.formal.check import Report as FormalReport
from lab.fuzz.suite import Report as FuzzReport
from lab.model.run import Report as ModelReport
from lab.mutants.suite import Report as MutantsReport
from lab.nth.suite import Report as NthReport
from lab.simulation.report import Report as SimulationReport
from lab.simulation.scenes import Scene

SEEDS_A_SLICE = 20
OPERATIONS_A_SLICE = 4_000
FUZZ_SECONDS = 60.0
CHAOS_SECONDS_MIN = 30.0
CHAOS_SECONDS_MAX = 1_200.0


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a suite's time."""

    number: int
    """From 0; other slices use other seeds."""
    seconds: float
    """How much is left for this suite; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a slice of it is one child process that prints its report as JSON."""

    name: str
    module: str
    report: type[Any]
    arguments: Callable[[Slice], Sequence[str]] = lambda _: ()
    weight: float | None = None
    """Its part of its lane's time; None if one run of it tells all, which is then made first."""
    is_timed: bool = False
    """Whether it measures how long real things take: only one such suite runs at a time."""

    def command(self, part: Slice) -> list[str]:
        return [sys.executable, "-m", self.module, *self.arguments(part), "--json"]


def _simulation(part: Slice) -> Sequence[str]:
    """Take new seeds each time, and the scenes in turn."""
    first = part.number * SEEDS_A_SLICE + 1
    scene = tuple(Scene)[part.number % len(Scene)]
    return "--seeds", f"{first}..{first + SEEDS_A_SLICE - 1}", "--scene", scene.value


def _model(*more: str) -> Callable[[Slice], Sequence[str]]:
    def arguments(part: Slice) -> Sequence[str]:
        return "--operations", str(OPERATIONS_A_SLICE), "--seed", str(part.number), *more

    return arguments


def _fuzz(part: Slice) -> Sequence[str]:
    seconds = min(max(part.seconds, 2.0), FUZZ_SECONDS)
    # Half of it for the parsers, half for the HTTP API.
    half = f"{seconds / 2:.0f}"
    return "--seconds", half, "--http", half, "--seed", str(part.number * 1_000)


def _chaos(store: str, *more: str) -> Callable[[Slice], Sequence[str]]:
    def arguments(part: Slice) -> Sequence[str]:
        # The rest goes to starting, to letting the last jobs end, and to checking.
        faults = min(max(part.seconds * 0.8, CHAOS_SECONDS_MIN), CHAOS_SECONDS_MAX)
        return "--store", store, "--seconds", f"{faults:.0f}", "--seed", str(part.number), *more

    return arguments


NODE = ("--fleet", "node", "--rate", "120")
"""Workers in JavaScript: all that they do passes through one server."""

SLOWER = ("--rate", "120")
"""A settlement on Redis takes two round trips."""

SLOWEST = ("--rate", "60")
"""Up to six servers share the processors with everybody else."""

PARTITIONS = ("--stores", "partitions")
"""Not with the others: some of what those do is not asked of it."""

TAKING_OVER = {
    "sentinel": ("sentinel", "replica"),
    "sentinel-process": ("sentinel", "process"),
    "cluster": ("cluster", "replica"),
    "partitions": ("partitions", "replica"),
}
"""Redis servers that take over from each other, and what is asked of them."""

SUITES = (
    Suite("formal", "lab.formal", FormalReport),
    Suite("nth", "lab.nth", NthReport),
    Suite("mutants", "lab.mutants", MutantsReport, lambda _: ("--jobs", "2")),
    Suite("simulation", "lab.simulation", SimulationReport, _simulation, weight=2),
    Suite("model", "lab.model", ModelReport, _model(), weight=6),
    Suite("model-partitions", "lab.model", ModelReport, _model(*PARTITIONS), weight=2),
    Suite("fuzz", "lab.fuzz", FuzzReport, _fuzz, weight=1),
    Suite("chaos-sqlite", "lab.chaos", ChaosReport, _chaos("sqlite"), weight=4, is_timed=True),
    Suite("chaos-postgres", "lab.chaos", ChaosReport, _chaos("postgres"), 5, is_timed=True),
    Suite("chaos-redis", "lab.chaos", ChaosReport, _chaos("redis", *SLOWER), 4, is_timed=True),
    *(
        Suite(
            f"chaos-redis-{name}",
            "lab.chaos",
            ChaosReport,
            _chaos("redis", *SLOWEST, "--layout", layout, "--durability", durability),
            weight=2,
            is_timed=True,
        )
        for name, (layout, durability) in TAKING_OVER.items()
    ),
    *(
        Suite(
            f"chaos-{store}-node", "lab.chaos", ChaosReport, _chaos(store, *NODE), 3, is_timed=True
        )
        for store in ("sqlite", "postgres")
    ),
)
