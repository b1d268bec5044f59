"""The jobs that a worker holds: about to start, running, or being settled.

All of them are heartbeated until the store has confirmed their settlement. The event loop and the
heartbeat thread share this; everything that both touch is under its mutex.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.core.bounds import START_WITHIN
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Settlement
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.worker.run.context import CancelReason

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt


@dataclass(slots=True, eq=False)
class InFlightJob:
    """One job that this worker holds."""

    job: ClaimedJob
    confirmed_at: float
    """On the monotonic clock: the lease is good for ``lease_ttl`` from then."""
    start_by: float
    """On the monotonic clock: if its handler has not begun by then, the job is given back."""
    attempt: RunningAttempt | None = None
    dependencies: Sequence[Dependency] | None = None
    """What the job waited for, with the results, once they are loaded; most jobs need none."""
    is_dropped: bool = False
    """Whether it is no longer held: its handler must not begin then."""


def interrupt_lost(held: InFlightJob, reason: CancelReason, counters: Counters) -> None:
    """Interrupt the handler of a job that is no longer ours. For the loop's thread."""
    counters.add(names.LEASE_LOST, reason=reason)
    log(names.LEASE_LOST, level=logging.WARNING, id=held.job.id, reason=reason)
    if held.attempt is not None:
        held.attempt.interrupt(reason)


class InFlight:
    """Which jobs are held, by id."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: dict[str, InFlightJob] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(
        self, jobs: Sequence[ClaimedJob], *, asked_at: float, answered_at: float
    ) -> tuple[list[InFlightJob], list[InFlightJob]]:
        """Hold freshly claimed jobs; return them, and what was held of them under older leases."""
        start_by = answered_at + START_WITHIN
        fresh = [InFlightJob(job, asked_at, start_by) for job in jobs]
        lost: list[InFlightJob] = []
        with self._mutex:
            for held in fresh:
                if held.job.id in self._held:
                    lost.append(self._held[held.job.id])  # lost to ourselves
                    lost[-1].is_dropped = True
                self._held[held.job.id] = held
        return fresh, lost

    def drop(self, job_id: str, token: str) -> InFlightJob | None:
        """Drop a job, if it is still held under this very lease."""
        with self._mutex:
            held = self._held.get(job_id)
            if held is None or held.job.lease.token != token:
                return None
            held.is_dropped = True
            return self._held.pop(job_id)

    def drop_all(self, settlements: Sequence[Settlement]) -> None:
        """Drop jobs whose settlements the store has answered."""
        with self._mutex:
            for settlement in settlements:
                held = self._held.get(settlement.job_id)
                if held is not None and held.job.lease.token == settlement.token:
                    held.is_dropped = True
                    del self._held[settlement.job_id]

    def everything(self) -> list[InFlightJob]:
        """Return all that is held."""
        with self._mutex:
            return list(self._held.values())
