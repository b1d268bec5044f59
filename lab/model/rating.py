"""How often jobs of a type may start: every start is remembered by itself.

The rates that the machine sets are of few starts, which every store tells apart exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from fencepost.core.limits.rates import Rate
from fencepost.errors import InvalidRateError
from lab.model.rules import has_come, seconds
from lab.model.world import Kept, World


class Rating:
    """The rates of types."""

    world: World
    now: datetime

    def set_rates(self, rates: Mapping[str, Rate | None]) -> None:
        if any(rate is not None and rate.count < 1 for rate in rates.values()):
            raise InvalidRateError("of no start at all")
        for type, rate in rates.items():
            if rate is None:
                self.world.rates.pop(type, None)
                self.world.starts.pop(type, None)
            elif rate != self.world.rates.get(type):
                self.world.starts[type] = self.counted(type)
                self.world.rates[type] = rate

    def counted(self, type: str) -> tuple[datetime, ...]:
        """Return the starts of a type that count against its rate, oldest first."""
        rate = self.world.rates.get(type)
        if rate is None:
            return ()
        window = seconds(rate.window)
        starts = self.world.starts.get(type, ())
        return tuple(start for start in starts if not has_come(start + window, self.now))

    def may_start(self, type: str, chosen: Iterable[Kept]) -> bool:
        """Tell whether one more may start beside those that were chosen."""
        rate = self.world.rates.get(type)
        taken = sum(kept.job.type == type for kept in chosen)
        return rate is None or len(self.counted(type)) + taken < rate.count

    def note_start(self, type: str) -> None:
        if type in self.world.rates:
            self.world.starts[type] = (*self.counted(type), self.now)

    def opens_at(self, type: str) -> datetime | None:
        """Return when a job of a type may start that may not now."""
        rate = self.world.rates.get(type)
        counted = self.counted(type)
        if rate is None or len(counted) < rate.count:
            return None
        return counted[len(counted) - rate.count] + seconds(rate.window)
