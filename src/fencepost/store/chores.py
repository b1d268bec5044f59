"""The chores of a claim: recover, expire, promote. A chore that fails does not fail the claim.

What it did is rolled back, by a savepoint, and the claim goes on without it. The failure is logged,
and this process does not try the chore for a while, longer each time: if it takes half a minute to
fail, not every claim may wait that long.
"""

from __future__ import annotations

import logging

from fencepost.clock import Clock
from fencepost.core.bounds import CHORE_PAUSE, CHORE_PAUSE_MAX
from fencepost.observe import names
from fencepost.observe.log import log


class Chores:
    """Which chores have failed in this process, and when they may be tried again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, int] = {}
        self.until: dict[str, float] = {}
        """When each chore that has failed may be tried again, on the monotonic clock."""

    def may(self, name: str) -> bool:
        """Return whether a claim may do the chore now."""
        until = self.until.get(name)
        return until is None or until <= self._clock.monotonic()

    def done(self, name: str) -> None:
        """Note that the chore has succeeded."""
        if name in self.until:
            self._failures.pop(name, None)
            self.until.pop(name, None)

    def failed(self, name: str, reason: str) -> None:
        """Do not try the chore for a while, and log why."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        pause = min(CHORE_PAUSE * 2 ** min(count - 1, 20), CHORE_PAUSE_MAX)
        self.until[name] = self._clock.monotonic() + pause
        log(names.CHORE_FAILED, level=logging.ERROR, chore=name, error=reason, pause=pause)

    def postpone(self, name: str, pause: float) -> None:
        """Do not try a chore for a moment that could not be finished."""
        self.until[name] = self._clock.monotonic() + pause

    def wait(self, wait: float | None) -> float | None:
        """Return how long a worker can wait: not only until a chore that is not tried yet."""
        if wait is None or wait > 0 or not self.until:
            return wait
        now = self._clock.monotonic()
        left = [until - now for until in list(self.until.values()) if until > now]
        return max(wait, min(left)) if left else wait
