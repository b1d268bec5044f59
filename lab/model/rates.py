"""What limits the jobs of a type; for its rate, every start is remembered by itself.

The rates that the machine sets are of few starts, which every store tells apart exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import NO_LIMITS, TypeLimits, TypeUsage
from fencepost.errors import InvalidRateError
from lab.model.rules import has_come, seconds
from lab.model.world import Kept, World


class Rating:
    """The limits of types."""

    world: World
    now: datetime

    def limit_types(self, limits: Mapping[str, TypeLimits]) -> None:
        if any(each.rate is not None and each.rate.count < 1 for each in limits.values()):
            raise InvalidRateError("of no start at all")
        for type, each in limits.items():
            if each.rate is None:
                self.world.starts.pop(type, None)
            elif each.rate != self._rate(type):
                self.world.starts[type] = self.counted(type)
            self.world.type_limits[type] = each
            if each == NO_LIMITS:
                del self.world.type_limits[type]

    def _rate(self, type: str) -> Rate | None:
        return self.world.type_limits.get(type, NO_LIMITS).rate

    def counted(self, type: str) -> tuple[datetime, ...]:
        """Return the starts of a type that count against its rate, oldest first."""
        rate = self._rate(type)
        if rate is None:
            return ()
        window = seconds(rate.window)
        starts = self.world.starts.get(type, ())
        return tuple(start for start in starts if not has_come(start + window, self.now))

    def may_start(self, type: str, chosen: Iterable[Kept]) -> bool:
        """Tell whether one more may start beside those that were chosen."""
        rate = self._rate(type)
        taken = sum(kept.job.type == type for kept in chosen)
        return rate is None or len(self.counted(type)) + taken < rate.count

    def note_start(self, type: str) -> None:
        if self._rate(type) is not None:
            self.world.starts[type] = (*self.counted(type), self.now)

    def usage(self, type: str) -> TypeUsage:
        return TypeUsage(rate_opens_at=self.opens_at(type))

    def opens_at(self, type: str) -> datetime | None:
        """Return when a job of a type may start that may not now."""
        rate = self._rate(type)
        counted = self.counted(type)
        if rate is None or len(counted) < rate.count:
            return None
        return counted[len(counted) - rate.count] + seconds(rate.window)
