"""Which rounds of tidying are thorough."""

from __future__ import annotations

from math import ceil

TIDY_INTERVAL = 0.5
THOROUGH_EVERY = 20
"""One tidying in so many looks below the marks, or fewer."""
THOROUGH_SHARE = 0.01
"""Of the time, at the most: beside an old snapshot, there is more to look at every time."""
THOROUGH_EVERY_MAX = 1_200


class Rounds:
    """Counts down to the next thorough round of a process."""

    def __init__(self) -> None:
        self._left = THOROUGH_EVERY

    def begin(self) -> bool:
        """Count a round; tell whether it is to be thorough."""
        self._left -= 1
        return self._left <= 0

    def note(self, seconds: float) -> None:
        """Set when the next thorough round is due, after one that took so long."""
        every = ceil(seconds / THOROUGH_SHARE / TIDY_INTERVAL)
        self._left = min(max(every, THOROUGH_EVERY), THOROUGH_EVERY_MAX)
