"""What every measurement is given: sizes, a place on the disk, a clock, and somebody to tell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from fencepost.clock import Clock

Measurement = Callable[[], float]


class Progress(Protocol):
    """Shows what is being done."""

    def step(self, what: str) -> None: ...


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    jobs: int
    """Jobs of one drain or of one bulk."""
    backlog: int
    """Jobs in line in the big drain."""
    singles: int
    """Jobs submitted one by one."""
    samples: int
    """Pickups."""
    stored: int
    """Jobs stored to weigh them."""
    starts: int
    """Fresh interpreters."""
    rounds: int


class Bench:
    """The workbench: databases are made under ``folder``, which the caller removes."""

    def __init__(
        self, folder: Path, *, sizes: Sizes, durability: str, clock: Clock, progress: Progress
    ) -> None:
        self.folder = folder
        self.sizes = sizes
        self.durability = durability
        self.clock = clock
        self._progress = progress
        self._made = 0

    def new_path(self) -> Path:
        """Return a path where no database has been yet."""
        self._made += 1
        return self.folder / f"bench-{self._made}.db"

    def url(self, path: Path) -> str:
        return f"sqlite:///{path}?durability={self.durability}"

    def copy_of(self, path: Path) -> Path:
        """Return a copy of a closed database, on the disk, so that no flush of it disturbs."""
        copy = self.new_path()
        shutil.copyfile(path, copy)
        with copy.open("rb+") as file:
            os.fsync(file.fileno())
        return copy

    def remove(self, path: Path) -> None:
        """Remove a database and everything beside it."""
        for suffix in ("", "-wal", "-shm", "-lock"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        shutil.rmtree(f"{path}.d", ignore_errors=True)

    def tell(self, what: str) -> None:
        self._progress.step(what)

    def seconds(self, work: Callable[[], object]) -> float:
        """Return how long *work* takes."""
        start = self.clock.monotonic()
        work()
        return self.clock.monotonic() - start

    def in_turns(self, sides: Mapping[str, Measurement]) -> dict[str, list[float]]:
        """Measure every side once a round; noise that lasts then hits all of them alike."""
        found: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(1, self.sizes.rounds + 1):
            for name, measure in sides.items():
                self.tell(f"{name}, round {number} of {self.sizes.rounds}")
                found[name].append(measure())
        return found
