"""Jobs in the order of their end."""

from __future__ import annotations

from datetime import datetime

from fencepost.core.stats.statistics import EndedJob
from fencepost.store.interface.records.overview import EndedPage
from lab.model.changes import Changing
from lab.model.world import Kept


class Endings(Changing):
    """Look at what has ended. A position is a job's number: it stands in the list but once."""

    def ended(
        self, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
    ) -> EndedPage:
        found = [
            _ended(kept, kept.job.completed_at)
            for kept in self.world.jobs.values()
            if kept.job.completed_at is not None and kept.job.completed_at >= since
        ]
        found.sort(key=lambda ended: (ended.completed_at, ended.position), reverse=newest_first)
        places = [ended.position for ended in found]
        begin = 0 if after is None else places.index(after) + 1
        shown, rest = found[begin : begin + limit], found[begin + limit :]
        return EndedPage(shown, shown[-1].position if rest else None)


def _ended(kept: Kept, at: datetime) -> EndedJob:
    return EndedJob(
        id=kept.id,
        type=kept.job.type,
        queue=kept.job.queue,
        state=kept.job.state,
        attempt=kept.job.attempt,
        created_at=kept.job.created_at,
        scheduled_at=kept.job.scheduled_at,
        started_at=kept.job.started_at,
        completed_at=at,
        position=kept.number,
    )
