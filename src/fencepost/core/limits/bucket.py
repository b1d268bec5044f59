"""A bucket that fills by the second: how many requests one token may make.

It holds what comes in a second, so that a client which was silent may send that much at once.
"""

from __future__ import annotations

import msgspec


class Bucket(msgspec.Struct, frozen=True):
    """What was left at an instant, in seconds of some clock that never goes back."""

    level: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> Bucket:
        """Return the bucket of whoever has not asked before."""
        return cls(capacity(rate), now)

    def take(self, rate: float, now: float) -> tuple[Bucket, float]:
        """Return what is left after one request, and 0; or the same, and how long to wait for it.

        What is refused takes nothing, so that a client which keeps asking is served at its rate.
        """
        elapsed = max(now - self.at, 0.0)
        level = min(self.level + elapsed * rate, capacity(rate))
        if level >= 1.0:
            return Bucket(level - 1.0, now), 0.0
        return Bucket(level, now), (1.0 - level) / rate


def capacity(rate: float) -> float:
    """Return how many requests may come at once: a second's worth, and one at the least."""
    return max(rate, 1.0)
