"""The jobs in a worker's hands: claimed and waiting, running, or being settled.

All of them are heartbeated until the store has confirmed their settlement. The event loop and the
heartbeat thread share this; everything that both touch is under its mutex.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.core.job import ClaimedJob, Dependency
from fencepost.core.outcome import Settlement

if TYPE_CHECKING:
    from fencepost.worker.attempt import Attempt


@dataclass(slots=True)
class Held:
    """One job in hand."""

    job: ClaimedJob
    confirmed_at: float
    """On the monotonic clock: the lease is good for ``lease_ttl`` from then."""
    heard_at: float
    """On the monotonic clock: when the store last said so; a job that has waited is asked after."""
    attempt: Attempt | None = None
    dependencies: Sequence[Dependency] | None = None
    """What the job waited for, with the results, once they are loaded; most jobs need none."""
    is_dropped: bool = False
    """Whether it has been let go of: what waits to be started must not be then."""


class Hand:
    """Who holds what."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: dict[str, Held] = {}
        self.waiting: deque[Held] = deque()
        """Claimed, not yet started; touched by the event loop only."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, jobs: Sequence[ClaimedJob], *, asked_at: float, heard_at: float) -> list[Held]:
        """Hold freshly claimed jobs; return what was held of them under leases that are over."""
        fresh = [Held(job, asked_at, heard_at) for job in jobs]
        lost: list[Held] = []
        with self._mutex:
            for held in fresh:
                if held.job.id in self._held:
                    lost.append(self._held[held.job.id])  # lost to ourselves
                    lost[-1].is_dropped = True
                self._held[held.job.id] = held
        self.waiting.extend(fresh)
        return lost

    def drop(self, job_id: str, token: str) -> Held | None:
        """Let go of a job, if it is still held under this very lease."""
        with self._mutex:
            held = self._held.get(job_id)
            if held is None or held.job.lease.token != token:
                return None
            held.is_dropped = True
            return self._held.pop(job_id)

    def drop_all(self, settlements: Sequence[Settlement]) -> None:
        """Let go of jobs that the store has answered for."""
        with self._mutex:
            for settlement in settlements:
                held = self._held.get(settlement.job_id)
                if held is not None and held.job.lease.token == settlement.token:
                    held.is_dropped = True
                    del self._held[settlement.job_id]

    def everything(self) -> list[Held]:
        """Return all that is held."""
        with self._mutex:
            return list(self._held.values())
