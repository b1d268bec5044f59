"""What every measurement is given: the ground it stands on, sizes, a clock, and somebody to tell.

A ground is one kind of store: it makes new stores to be measured and takes them away again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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


class Bench(ABC):
    """The workbench; its subclasses are the grounds. Files go under ``folder``, which the caller
    removes."""

    def __init__(self, folder: Path, *, sizes: Sizes, clock: Clock, progress: Progress) -> None:
        self.folder = folder
        self.sizes = sizes
        self.clock = clock
        self._progress = progress

    @abstractmethod
    def new_store(self) -> AbstractContextManager[str]:
        """Give the URL of a new and empty store, which is removed at the end of the context."""

    @abstractmethod
    def have_loaded(self, url: str) -> None:
        """Put the store at *url* in order after jobs were loaded as they were created.

        Of jobs that came from elsewhere no order is taken for granted; these have one.
        """

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
