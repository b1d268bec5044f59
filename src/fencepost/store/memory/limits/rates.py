"""How often jobs of a type may start, and how often they did lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from fencepost.core.limits.rates import Rate, Uses, check_rates, soonest
from fencepost.store.interface.listener import Topic
from fencepost.store.memory.engine.journal import Journal

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld

V = TypeVar("V")


class Rates:
    """The rates by type, and the uses that still count, the oldest first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.by_type: dict[str, Rate] = {}
        self._uses: dict[str, Uses] = {}

    def set(self, rates: Mapping[str, Rate | None], now: int) -> None:
        """Set or clear rates; a changed one goes on with what the old one has counted."""
        for type, rate in check_rates(rates).items():
            if rate is None:
                self._put(self.by_type, type, None)
                self._put(self._uses, type, None)
            elif rate != self.by_type.get(type):
                self._put(self._uses, type, self._counted(type, now))
                self._put(self.by_type, type, rate)

    def budget(self, now: int) -> dict[str, int]:
        """Return how many jobs of each type that has a rate may start now."""
        for type, rate in self.by_type.items():
            uses = self._of(type)
            if (seen := rate.as_of(uses, now)) is not uses:  # the clock was set back
                self._put(self._uses, type, tuple(seen))
        return {type: rate.left(self._of(type), now) for type, rate in self.by_type.items()}

    def note(self, started: Counter[str], now: int) -> None:
        """Write down that so many jobs of each type start now."""
        for type in started.keys() & self.by_type.keys():
            moment = self.by_type[type].moment(now)
            uses = dict(self._counted(type, now))
            uses[moment] = uses.get(moment, 0) + started[type]
            self._put(self._uses, type, tuple(sorted(uses.items())))

    def opens_at(self, types: Collection[str], now: int) -> int | None:
        """Return when the first of *types* that may not start now may; None if all may."""
        rated = self.by_type.keys() & types
        return soonest(self.by_type[type].opens_at(self._of(type), now) for type in rated)

    def _of(self, type: str) -> Uses:
        return self._uses.get(type, ())

    def _counted(self, type: str, now: int) -> Uses:
        """Return the uses that still count; without a rate, nothing does."""
        rate = self.by_type.get(type)
        if rate is None:
            return ()
        return tuple(u for u in rate.as_of(self._of(type), now) if u[0] > now - rate.window_us)

    def _put(self, values: dict[str, V], type: str, value: V | None) -> None:
        was = values.get(type)
        self._journal.note(lambda: _set(values, type, was))
        _set(values, type, value)


def _set(values: dict[str, V], type: str, value: V | None) -> None:
    if value is None:
        values.pop(type, None)
    else:
        values[type] = value


def set_rates(world: MemoryWorld, rates: Mapping[str, Rate | None]) -> None:
    """Bound how often jobs of types start."""
    world.rates.set(rates, world.now)
    world.journal.announce(Topic.READY)
