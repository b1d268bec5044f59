"""How often jobs of a type may start, and how often they did lately."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping

from fencepost.core.rate import Rate, check_rates, soonest


class Rates:
    """The rates by type, and the uses that still count."""

    def __init__(self) -> None:
        self.by_type: dict[str, Rate] = {}
        self._uses: dict[str, deque[tuple[int, int]]] = {}

    def set(self, rates: Mapping[str, Rate | None], now: int) -> None:
        """Set or clear rates; a changed one goes on with what the old one has counted."""
        for type, rate in check_rates(rates).items():
            if rate is None:
                self.by_type.pop(type, None)
                self._uses.pop(type, None)
            elif rate != self.by_type.get(type):
                self._forget(type, now)
                self.by_type[type] = rate

    def budget(self, now: int) -> dict[str, int]:
        """Return how many jobs of each type that has a rate may start now."""
        for type in self.by_type:
            self._forget(type, now)
        return {type: rate.left(self._of(type), now) for type, rate in self.by_type.items()}

    def note(self, started: Counter[str], now: int) -> None:
        """Write down that so many jobs of each type start now."""
        for type in started.keys() & self.by_type.keys():
            moment = self.by_type[type].moment(now)
            uses = self._uses.setdefault(type, deque())
            last = uses.pop() if uses and uses[-1][0] == moment else (moment, 0)
            uses.append((moment, last[1] + started[type]))

    def opens_at(self, types: Collection[str], now: int) -> int | None:
        """Return when the first of *types* that may not start now may; None if all may."""
        rated = self.by_type.keys() & types
        return soonest(self.by_type[type].opens_at(self._of(type), now) for type in rated)

    def _of(self, type: str) -> list[tuple[int, int]]:
        return list(self._uses.get(type, ()))

    def _forget(self, type: str, now: int) -> None:
        """Drop what no longer counts."""
        uses = self._uses.get(type)
        while uses and uses[0][0] <= now - self.by_type[type].window_us:
            uses.popleft()
