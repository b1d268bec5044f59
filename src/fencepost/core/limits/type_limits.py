"""What limits the jobs of one type, over all workers: one value that is passed on as a whole.

Only this file knows which limits there are. Tasks, workers, stores and views hold a ``TypeLimits``,
stores keep it as JSON, and a claim applies it. A new limit is a field here, its option, its words,
and its effect in the claim of each engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypedDict

import msgspec

from fencepost.core.limits.rates import Rate, parse_rate
from fencepost.core.values.times import format_duration


class TypeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a type; None: no such limit."""

    rate: Rate | None = None
    """How often its jobs may start."""

    @property
    def limits(self) -> TypeLimits:
        """The limits alone, also of a value that has other fields besides."""
        return TypeLimits(**{name: getattr(self, name) for name in TypeLimits.__struct_fields__})

    @property
    def limit_notes(self) -> list[str]:
        """What a list of types says of each limit."""
        return [] if self.rate is None else [f"starts {self.rate.shown}"]

    def obstacles(self, type: str, usage: TypeUsage, now: datetime) -> Iterator[tuple[str, str]]:
        """Yield a code and a text for each limit that keeps a job of *type* from starting."""
        if self.rate is not None and usage.rate_opens_at is not None:
            left = max((usage.rate_opens_at - now).total_seconds(), 0.0)
            yield (
                "rate_limited",
                f"type {type!r} starts at most {self.rate.shown}; the next can start in "
                f"{format_duration(round(left, 1) or round(left, 3))}",
            )


class TypeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How far the limits of a type are used up, at one moment."""

    rate_opens_at: datetime | None = None
    """When a job can start again; None if the rate lets one start now."""

    @property
    def opens_at(self) -> datetime | None:
        """When a limit that is reached opens by itself; None if none does."""
        return self.rate_opens_at


NO_LIMITS = TypeLimits()
NO_USAGE = TypeUsage()


class LimitOptions(TypedDict, total=False):
    """The limits of a type as options of its task: ``@app.task(rate="100/m")``."""

    rate: str | None
    """Such as ``"100/m"``: at most 100 of its jobs start in any one minute."""


def parse_limits(*, rate: object = None) -> TypeLimits:
    """Return the limits that the options of a task mean, or raise InvalidRateError."""
    return TypeLimits(rate=None if rate is None else parse_rate(rate))


def check_limits(limits: Mapping[str, TypeLimits]) -> dict[str, TypeLimits]:
    """Return *limits* by type, in the order of their names, or raise InvalidRateError."""
    return {type: parse_limits(**msgspec.structs.asdict(limits[type])) for type in sorted(limits)}
