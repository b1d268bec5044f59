"""The slots of a worker: how many are taken, by which attempts, and how many a claim may fill.

A claim is a start (C41): the store counts it, shows the job as running, and holds it against limits
and rates. So a worker claims as many jobs as it has free slots, and never one more.
"""

from __future__ import annotations

import asyncio
import sys
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
    """The slots, for the loop's thread only."""

    def __init__(self, count: int, inflight: InFlight, *, until_idle: bool = False) -> None:
        self.count = count
        self.taken = 0
        """Slots of jobs that were claimed and whose handlers have not returned."""
        self.running: dict[str, RunningAttempt] = {}
        """Attempts that have begun and have no outcome, by lease token."""
        self.until_idle = until_idle
        self.reach = Reach(count)
        self.turn = 0
        """How many jobs have been claimed and were not late: the next claim goes on there."""
        self.share = sys.maxsize
        """How many jobs this process may claim before it is replaced."""
        self.late: list[InFlightJob] = []
        """Jobs that came too late to begin, until the store has them back."""
        self.has_returned = False
        """Whether a job of this worker is claimable again: the next claim looks at everything."""
        self.is_held_up = False
        """Whether settlements have to be written before more is claimed."""
        self.news = asyncio.Event()
        """Set when the fetcher should look again: a slot is free, a notification came, a stop."""
        self.quiet = asyncio.Event()
        """Set when nothing may be running any more, for a worker that stops."""
        self._inflight = inflight
        self._news_at = count
        """A handler that returns sets ``news`` if no more slots than this are taken."""

    def wanted(self) -> int:
        """Return how many jobs to claim now."""
        # Jobs that have ended but are not recorded would all run again if this process died.
        self.is_held_up = len(self._inflight.held) - self.taken > UNSETTLED_MAX
        if self.is_held_up:
            return 0
        free, share = self.count - self.taken, self.share - self.turn
        return max(min(free, CLAIM_MAX, self.reach.bound, share), 0)

    def is_giving_back(self) -> bool:
        """Return whether late jobs are on their way back to the store."""
        if self.late:
            self.late = [held for held in self.late if not held.is_dropped]
        return bool(self.late)

    def free(self) -> None:
        """Free a slot: its handler has returned, or has never begun."""
        self.taken -= 1
        if not self.running:
            self.quiet.set()
        if self.taken <= self._news_at:
            self.news.set()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Set ``news`` if a claim waits for this, a job can be claimed again, or all is done."""
        returned = any(
            s.decision.event is not Event.SUCCEED and not s.decision.state.is_terminal
            for s in settlements
        )
        self.has_returned = self.has_returned or returned
        is_over = self.until_idle and not self._inflight.held
        if self.is_held_up or self.late or is_over or returned:
            self.news.set()

    async def gather(self) -> None:
        """Wait a moment until half of the slots are free, unless none is.

        A claim costs nearly the same for one job as for ten. Threads end one by one, and so short
        jobs in threads would be claimed one by one.
        """
        if not self.count // 2 < self.taken < self.count:
            return
        self._news_at = self.count // 2
        await self.rest(GATHER)
        self._news_at = self.count

    async def rest(self, seconds: float) -> None:
        """Wait for ``news``, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.news.wait()


class Reach:
    """How many jobs one claim may bring, so that all of them begin in time.

    Coroutines begin one after the other: if each keeps the event loop busy for 10 ms, the twentieth
    begins 200 ms after it was claimed, and a pause or an urgent job takes effect that much later.
    So a worker measures how fast its handlers begin, and claims no more than begin soon. A job that
    is still late is released. The bound falls at once and rises step by step.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._bound = float(slots)
        self.vain = 0
        """Claims in a row of which nothing has begun."""

    @property
    def bound(self) -> int:
        return int(self._bound)

    def claimed(self) -> bool:
        """Note a claim that has brought jobs; True if its first begins however late it is.

        Then nothing of the last claim began. So a loop that is always blocked still makes progress.
        """
        self.vain += 1
        self._bound = min(self._bound * GROWTH + 1, self._slots)
        return self.vain > 1

    def began(self, count: int, seconds: float) -> None:
        """Note that *count* handlers began, one after the other, in so many seconds."""
        if seconds > 0:
            self._bound = max(min(self._bound, count * SOON / seconds), 1.0)

    def came_late(self) -> None:
        """Note a job that could not begin in time."""
        self._bound = max(self._bound / 2, 1.0)
