"""What claims do on the side: recover, expire, promote. A chore that fails fails no claim.

Whatever such a chore did is taken back, by a savepoint or a journal, and the claim goes on without
it. It is logged, and this process leaves it alone for a while, longer each time: a chore that takes
half a minute to fail must not cost every claim that long.
"""

from __future__ import annotations

import logging

from fencepost.clock import Clock
from fencepost.core.bounds import CHORE_PAUSE, CHORE_PAUSE_MAX
from fencepost.observe import names
from fencepost.observe.log import log


class Chores:
    """Which chores have failed in this process, and until when they are left alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def may(self, name: str) -> bool:
        """Tell whether a claim may do the chore now."""
        until = self._until.get(name)
        return until is None or until <= self._clock.monotonic()

    def done(self, name: str) -> None:
        """Take note that the chore can be done again."""
        if name in self._until:
            self._failures.pop(name, None)
            self._until.pop(name, None)

    def failed(self, name: str, reason: str) -> None:
        """Leave the chore alone for a while, and say why."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        pause = min(CHORE_PAUSE * 2 ** min(count - 1, 20), CHORE_PAUSE_MAX)
        self._until[name] = self._clock.monotonic() + pause
        log(names.CHORE_FAILED, level=logging.ERROR, chore=name, error=reason, pause=pause)

    def postpone(self, name: str, pause: float) -> None:
        """Leave a chore alone for a moment that could not be done to its end."""
        self._until[name] = self._clock.monotonic() + pause

    def wait(self, wait: float | None) -> float | None:
        """Return how long a worker can wait, which need not ask for what is left alone."""
        if wait is None or wait > 0 or not self._until:
            return wait
        now = self._clock.monotonic()
        left = [until - now for until in list(self._until.values()) if until > now]
        return max(wait, min(left)) if left else wait
