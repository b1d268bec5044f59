"""The slots of a worker: how many are taken, by which attempts, and how many a claim may fill.

A claim is a start (C41): the store counts it, shows the job as running, and holds it against limits
and rates. So a worker claims as many jobs as it has free slots, and never one more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.core.bounds import CLAIM_MAX, GATHER, START_WITHIN, UNSETTLED_MAX
from fencepost.core.job.lifecycle import Event
from fencepost.core.job.outcome import Settlement
from fencepost.worker.run.inflight import InFlight, InFlightJob

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt

SOON = START_WITHIN / 2
GROWTH = 1.5


class WorkerSlots:
    """What the event loop knows of the slots. Every method is for the loop's thread."""

    def __init__(self, count: int, inflight: InFlight, *, until_idle: bool = False) -> None:
        self.count = count
        self.taken = 0
        """Slots of jobs that were claimed and whose handlers have not come back."""
        self.running: dict[str, RunningAttempt] = {}
        """Attempts that have begun and have no outcome, by lease token."""
        self.until_idle = until_idle
        self.reach = Reach(count)
        self.turn = 0
        """How many jobs have been claimed and were not late: where the next claim deals from."""
        self.late: list[InFlightJob] = []
        """Jobs that came too late to begin, until the store has them back."""
        self.is_held_up = False
        """Whether settlements have to be written before more is claimed."""
        self.news = asyncio.Event()
        """Set when another claim may bring something: a slot, a notification, a stop."""
        self.quiet = asyncio.Event()
        """Set when nothing may be running any more, for a worker that stops."""
        self._inflight = inflight
        self._news_at = count
        """How few slots must be taken for a handler that comes back to be news."""

    def wanted(self) -> int:
        """Return how many jobs to claim now."""
        # Jobs that have ended but are not recorded would all run again if this process died.
        self.is_held_up = len(self._inflight) - self.taken > UNSETTLED_MAX
        if self.is_held_up:
            return 0
        return min(max(self.count - self.taken, 0), CLAIM_MAX, self.reach.bound)

    def is_giving_back(self) -> bool:
        """Tell whether late jobs are on their way back to the store."""
        if self.late:
            self.late = [held for held in self.late if not held.is_dropped]
        return bool(self.late)

    def free(self) -> None:
        """Give a slot back: its handler has come back, or has never begun."""
        self.taken -= 1
        if not self.running:
            self.quiet.set()
        if self.taken <= self._news_at:
            self.news.set()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Set ``news`` if a claim waits for this, if a job comes back, or if all is done."""
        if (
            self.is_held_up
            or self.late
            or (self.until_idle and not self._inflight)
            or any(
                s.decision.event is not Event.SUCCEED and not s.decision.state.is_terminal
                for s in settlements
            )
        ):
            self.news.set()

    async def gather(self) -> None:
        """Wait a moment until half of the slots are free, unless none is.

        A claim costs nearly the same for one job as for ten. A thread comes back by itself, and so
        short jobs in threads would be claimed one by one.
        """
        if not self.count // 2 < self.taken < self.count:
            return
        self._news_at = self.count // 2
        await self.rest(GATHER)
        self._news_at = self.count

    async def rest(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.news.wait()


class Reach:
    """How many jobs one claim may bring, so that all of them begin in time.

    Coroutines begin one after the other: if each keeps the event loop busy for 10 ms, the twentieth
    begins 200 ms after it was claimed, and a pause or an urgent job takes effect that much later.
    So a worker measures how fast its handlers begin, and claims no more than begin soon. What is
    late all the same is given back. The bound falls at once and rises step by step.
    """

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
