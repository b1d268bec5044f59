"""What a fault is: a name, the stores that can suffer it, and a deed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from fencepost.clock import Clock
from lab.chaos.crew import Crew
from lab.chaos.gate import Gate
from lab.chaos.settings import LAYOUTS, Settings
from lab.chaos.stage import Stage

ALL = ("sqlite", "postgres", "redis")
FLEETS = ("python", "node")
"""The languages of workers; those in another than ours come by HTTP."""


ONE = LAYOUTS[:1]
GROUPS = LAYOUTS[1:]
CLUSTERS = LAYOUTS[2:]


class NotNow(Exception):
    """The fault cannot be injected; the message says why."""


@dataclass(frozen=True)
class Scene:
    """All that a fault can lay its hands on."""

    settings: Settings
    stage: Stage
    crew: Crew
    clock: Clock
    rng: Random
    gate: Gate | None = None
    """The way to the HTTP API, if workers come by that."""

    def wait(self, shortest: float, longest: float) -> None:
        """Wait for some time between the two."""
        self.clock.sleep(self.rng.uniform(shortest, longest))


@dataclass(frozen=True)
class Fault:
    """A kind of fault. ``strike`` returns when it is over and mended, or raises NotNow."""

    name: str
    strike: Callable[[Scene], None]
    stores: tuple[str, ...] = ALL
    is_wide: bool = False
    """Whether it hurts the store itself, and so everybody; else single processes only."""
    weight: int = 1
    """How often it comes in a round."""
    fleets: tuple[str, ...] = FLEETS
    layouts: tuple[str, ...] = LAYOUTS
    """How many servers it takes, if they are Redis."""
