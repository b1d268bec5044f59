"""Jobs that have ended, as light as they can be told of, and whoever tells of them in turn.

They are in the order of their end: by time, then by number. A store that lets transactions commit
side by side may show one late, at a place that a reader has passed. So whoever is to miss nothing
reads again from ENDED_OVERLAP before the last place, and drops what it has told. That covers what
takes no longer to commit; a caller's own transaction that stays open for longer is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from fencepost.core.bounds import ENDED_OVERLAP, ENDED_TOLD_MAX
from fencepost.core.job.lifecycle import State

OVERLAP = timedelta(seconds=ENDED_OVERLAP)
FIRST = datetime.min.replace(tzinfo=UTC)


class EndedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A terminal job, without what it was given and what it gave."""

    id: str
    type: str
    queue: str
    state: State
    attempt: int
    created_at: datetime
    scheduled_at: datetime | None
    """When it became claimable the last time; None if it never was."""
    started_at: datetime | None
    """When its last attempt began; None if there was none."""
    ended_at: datetime
    position: int
    """Its place in the order of ends. A job that is run again and ends again has another."""


class Follower:
    """Remembers what was told of late, so that each end is told once."""

    def __init__(self, since: datetime) -> None:
        self._newest = since
        self._told: dict[int, datetime] = {}

    @property
    def since(self) -> datetime:
        """From when to read on."""
        return max(self._newest, FIRST + OVERLAP) - OVERLAP

    def take(self, jobs: Sequence[EndedJob]) -> list[EndedJob]:
        """Return those of *jobs* that have not been told, and remember them."""
        fresh = [job for job in jobs if job.position not in self._told]
        for job in fresh:
            self._told[job.position] = job.ended_at
            self._newest = max(self._newest, job.ended_at)
        self._forget()
        return fresh

    def _forget(self) -> None:
        """Drop what will not be read again; of too many, the first told, to be told twice."""
        since = self.since
        kept = {place: at for place, at in self._told.items() if at >= since}
        excess = max(len(kept) - ENDED_TOLD_MAX, 0)
        self._told = dict(list(kept.items())[excess:])
