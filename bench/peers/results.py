"""What was measured, kept in a file: a run that was interrupted goes on where it ended."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

Name = Literal[
    "submit",
    "bulk",
    "drain",
    "drain-2",
    "pickup",
    "pickup-busy",
    "killed",
    "snapshot",
    "backlog",
]
"""In the order in which they are measured: what takes longest is last."""
FIGURES: tuple[Name, ...] = Name.__args__  # type: ignore[attr-defined] # typing does not know it


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured; two runs with the same go into the same report."""

    jobs: int
    """Jobs of a bulk and of a drain."""
    singles: int
    samples: int
    """Pickups by an idle worker."""
    steady: int
    """Pickups under a steady load."""
    passing: int
    """Jobs that pass under an old snapshot."""
    backlog: int
    drain_seconds: float
    """A drain is cut after this, and its rate is that of the jobs done by then."""
    killed_seconds: float
    """How long one waits for the jobs of a killed worker."""


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measurement of one figure; only what that figure has is set."""

    rate: float | None = None
    """Jobs a second."""
    usual: float | None = None
    """The same of a short line, a moment before."""
    is_cut: bool = False
    p50: float | None = None
    p99: float | None = None
    """In ms."""
    missing: int = 0
    """Jobs that were not picked up while one waited."""
    first_quarter: float | None = None
    last_quarter: float | None = None
    interrupted: int | None = None
    """Jobs that were running when their worker was killed."""
    again: int = 0
    """Of those, how many ran again while one waited."""
    after: float | None = None
    """Seconds from the kill until the last of those began again."""
    stuck: int = 0
    """Jobs that no worker had begun when the first was killed, and that did not run either."""
    error: str = ""


class Machine(msgspec.Struct, kw_only=True):
    """Where and when that was, and what else ran."""

    cores: int = 0
    system: str = ""
    python: str = ""
    servers: list[str] = []
    date: str = ""
    loads: list[float] = []
    """Processes that wanted to run, before each measurement: the average of the last minute."""


class Results(msgspec.Struct, kw_only=True):
    """All readings so far."""

    sizes: Sizes
    machine: Machine = msgspec.field(default_factory=Machine)
    versions: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    """Peers that could not be measured at all, and why."""
    readings: dict[str, dict[str, list[Reading]]] = {}
    """By figure and peer."""

    def of(self, figure: str, peer: str) -> list[Reading]:
        return self.readings.get(figure, {}).get(peer, [])

    def rounds(self, figure: str) -> int:
        """Return how many rounds are complete: half of one would compare different minutes."""
        return min(map(len, filter(None, self.readings.get(figure, {}).values())), default=0)

    def add(self, figure: str, peer: str, reading: Reading) -> None:
        self.readings.setdefault(figure, {}).setdefault(peer, []).append(reading)

    def drop_errors(self) -> None:
        """Forget what failed, so that it is tried again."""
        for peers in self.readings.values():
            for name, found in peers.items():
                peers[name] = [reading for reading in found if not reading.error]

    def typical(self, figure: str, peer: str) -> Reading | None:
        """Return one reading for all rounds: the median of each number; None if none was made."""
        rounds = self.of(figure, peer)[: self.rounds(figure)]
        found = [reading for reading in rounds if not reading.error]
        if not found:
            return rounds[-1] if rounds else None
        return Reading(
            rate=middle([each.rate for each in found]),
            usual=middle([each.usual for each in found]),
            is_cut=any(each.is_cut for each in found),
            p50=middle([each.p50 for each in found]),
            p99=middle([each.p99 for each in found]),
            missing=max(each.missing for each in found),
            first_quarter=middle([each.first_quarter for each in found]),
            last_quarter=middle([each.last_quarter for each in found]),
            interrupted=found[-1].interrupted,
            again=found[-1].again,
            after=found[-1].after,
            stuck=found[-1].stuck,
        )


def middle(values: list[float | None]) -> float | None:
    """Return the median of those that there are."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def load(path: Path, sizes: Sizes) -> Results:
    """Return what *path* has of the same sizes; else nothing yet."""
    if path.is_file():
        found = msgspec.json.decode(path.read_bytes(), type=Results)
        if found.sizes == sizes:
            found.drop_errors()
            return found
    return Results(sizes=sizes)


def save(path: Path, results: Results) -> None:
    """Write *results*; whoever reads sees the old ones or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    os.replace(beside, path)
