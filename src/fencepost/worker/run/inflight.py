"""The jobs that a worker holds: about to start, running, or being settled.

All of them are heartbeated until the store has confirmed their settlement. The event loop and the
heartbeat thread share this; everything that both touch is under its mutex.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.core.bounds import START_WITHIN, UNSETTLED_MAX
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Settlement
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import write
from fencepost.worker.run.context import CancelReason

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt


@dataclass(slots=True, eq=False)
class InFlightJob:
    """A job that this worker holds."""

    job: ClaimedJob
    confirmed_at: float
    """On the monotonic clock: the lease is good for ``lease_ttl`` from then."""
    start_by: float
    """On the monotonic clock: if its handler has not begun by then, the job is released."""
    attempt: RunningAttempt | None = None
    dependencies: Sequence[Dependency] | None = None
    """The jobs that it waited for, with results, once they are loaded; most jobs need none."""
    is_dropped: bool = False
    """Whether it is no longer held: then its handler must not begin."""


def interrupt_lost(held: InFlightJob, reason: CancelReason, counters: Counters) -> None:
    """Interrupt the handler of a job that is lost. For the loop's thread."""
    counters.add(names.LEASE_LOST, reason=reason)
    if reason != "cancelled":
        job = held.job
        about = {"queue": job.queue, "attempt": job.attempt, "reason": reason}
        text = (
            f"{job.type} {job.id} lost its lease (attempt {job.attempt} of {job.max_attempts}): "
            f"the store was out of reach for too long, or another worker has it; it is stopped here"
        )
        fields = {"id": job.id, "type": job.type, **about}
        write(names.LEASE_LOST, fields, level=logging.WARNING, text=text)
    if held.attempt is not None:
        held.attempt.interrupt(reason)


class InFlight:
    """Which jobs are held, by id."""

    def __init__(self, lost_max: int = UNSETTLED_MAX) -> None:
        self._mutex = threading.Lock()
        self.held: dict[str, InFlightJob] = {}
        """Changed under the mutex."""
        self.lost: deque[str] = deque(maxlen=lost_max)
        """Tokens of started jobs that were lost or left: the store may not know yet that they have
        ended, if the reply to a heartbeat was lost, or if a transaction of theirs is still open."""

    def take(
        self, jobs: Sequence[ClaimedJob], *, asked_at: float, answered_at: float
    ) -> tuple[list[InFlightJob], list[InFlightJob]]:
        """Hold claimed jobs; return them, and those of them that were held under older leases."""
        start_by = answered_at + START_WITHIN
        fresh = [InFlightJob(job, asked_at, start_by) for job in jobs]
        lost: list[InFlightJob] = []
        with self._mutex:
            for held in fresh:
                if held.job.id in self.held:
                    lost.append(self.held[held.job.id])
                    lost[-1].is_dropped = True
                self.held[held.job.id] = held
        return fresh, lost

    def drop(self, job_id: str, token: str) -> InFlightJob | None:
        """Drop a job, if it is still held under this very lease."""
        with self._mutex:
            held = self.held.get(job_id)
            if held is None or held.job.lease.token != token:
                return None
            held.is_dropped = True
            return self.held.pop(job_id)

    def lose(self, held: InFlightJob) -> bool:
        """Drop a job whose lease is lost; return False if it is not held any more."""
        token = held.job.lease.token
        with self._mutex:
            self.lost.append(token)  # first: ``started`` must find it here or among what is held
        return self.drop(held.job.id, token) is not None

    def leave(self, job_id: str, token: str) -> None:
        """Drop a job whose handler has ended, and which stays running in the store."""
        with self._mutex:
            self.lost.append(token)
        self.drop(job_id, token)

    def drop_all(self, settlements: Sequence[Settlement]) -> None:
        """Drop jobs whose settlements the store has answered."""
        with self._mutex:
            for settlement in settlements:
                held = self.held.get(settlement.job_id)
                if held is not None and held.job.lease.token == settlement.token:
                    held.is_dropped = True
                    del self.held[settlement.job_id]

    def started(self) -> list[str]:
        """Return the tokens under which handlers have started, and which may still be good."""
        tokens = [
            held.job.lease.token
            for held in self.everything()
            if held.attempt is not None and held.attempt.unbegun is None
        ]
        with self._mutex:
            return [*tokens, *self.lost]

    def known(self) -> set[str]:
        """Return the tokens of all that is held, and of what has started and may be running."""
        with self._mutex:
            return {*self.lost, *(held.job.lease.token for held in self.held.values())}

    def everything(self) -> list[InFlightJob]:
        """Return all that is held."""
        with self._mutex:
            return list(self.held.values())
