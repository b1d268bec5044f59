"""How many jobs one claim may bring, so that all of them begin in time.

A claim is a start, and coroutines begin one after the other: if each keeps the event loop busy for
10 ms, the twentieth begins 200 ms after it was claimed, and pauses and urgent jobs are heeded that
much later. So a worker measures how fast its handlers begin, and claims no more than begin soon.
What is late all the same is given back.
"""

from __future__ import annotations

from fencepost.core.bounds import START_WITHIN

SOON = START_WITHIN / 2
GROWTH = 1.5


class Reach:
    """A bound that falls at once and rises by and by."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._bound = float(slots)
        self.vain = 0
        """Claims in a row of which nothing has begun."""

    @property
    def bound(self) -> int:
        return int(self._bound)

    @property
    def must_begin(self) -> bool:
        """Whether the first job of this claim begins however late it is.

        Nothing of the last one did: a loop that is always blocked still gets on, if slowly.
        """
        return self.vain > 1

    def claimed(self) -> None:
        """Take note of a claim that has brought jobs."""
        self.vain += 1
        self._bound = min(self._bound * GROWTH + 1, self._slots)

    def began(self, count: int, seconds: float) -> None:
        """Take note that *count* handlers began, one after the other, in so many seconds."""
        if seconds > 0:
            self._bound = max(min(self._bound, count * SOON / seconds), 1.0)

    def came_late(self) -> None:
        """Take note of a job that could not begin in time."""
        self._bound = max(self._bound / 2, 1.0)
