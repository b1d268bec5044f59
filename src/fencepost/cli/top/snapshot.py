"""What ``fencepost top`` shows: one look at the whole store."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from fencepost.core.crypto.envelope import readable
from fencepost.core.display import shown_url
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView

if TYPE_CHECKING:
    from fencepost.app import App

RUNNING_SHOWN = 20


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The store at one moment."""

    url: str
    at: datetime
    counts: dict[State, int]
    queues: list[QueueView]
    workers: list[WorkerInfo]
    running: list[Job]
    """Some of the running jobs, the newest first."""

    @property
    def ended(self) -> int:
        """How many jobs have ended, for rates."""
        return sum(count for state, count in self.counts.items() if state.is_terminal)


def take(app: App) -> Snapshot:
    """Look at everything."""
    queues = app.queues.list()
    counts = dict.fromkeys(State, 0)
    for queue in queues:
        for state, count in queue.counts.items():
            counts[state] += count
    running = app.jobs.find(state=State.RUNNING, limit=RUNNING_SHOWN)
    return Snapshot(
        url=shown_url(app.url),
        at=app.session.clock.now(),
        counts=counts,
        queues=queues,
        workers=app.workers.list(),
        running=[readable(job) for job in running],
    )


def rate(before: Snapshot | None, now: Snapshot) -> float | None:
    """Return how many jobs a second ended between two looks; None when that cannot be told."""
    if before is None:
        return None
    seconds = (now.at - before.at).total_seconds()
    ended = now.ended - before.ended
    return ended / seconds if seconds > 0 and ended >= 0 else None
