"""Who holds the keys of a whole submission, looked up at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.job.idempotency import is_held
from fencepost.core.job.job import NewJob
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.parents import PARENT_COLUMNS, Stored, stored

# Joined, not `(type, key) in (values ...)`: for that SQLite walks all keys that there are.
HOLDERS = f"""
with wanted(type, key) as ({{values}})
select wanted.type, wanted.key, idempotency.window_ends_at, lanes.queue, {PARENT_COLUMNS}
from wanted
cross join idempotency on idempotency.type = wanted.type and idempotency.key = wanted.key
cross join jobs on jobs.seq = idempotency.seq
cross join lanes on lanes.lane = jobs.lane
"""


class Holding(NamedTuple):
    """The job that was the last to take a key, and until when it holds it at least."""

    job: Stored
    queue: str
    window_ends_at: int | None


class Holders:
    """Jobs by the keys that they were the last to take."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._last: dict[tuple[str, str], Holding] = {}

    def put(self, type: str, key: str, holding: Holding) -> None:
        """Note that a job has taken a key."""
        self._last[type, key] = holding

    def get(self, type: str, key: str) -> Holding | None:
        """Return the job that holds a key now, if one does."""
        last = self._last.get((type, key))
        if last is None:
            return None
        is_live = not last.job.parent.state.is_terminal
        held = is_held(is_live=is_live, window_ends_us=last.window_ends_at, now_us=self._now)
        return last if held else None


def find_holders(jobs: Sequence[NewJob], now: int) -> Plan[Holders]:
    """Return who holds the keys of *jobs*."""
    holders = Holders(now)
    pairs = list({(job.type, job.key.value): None for job in jobs if job.key is not None})
    for sql, params in values(HOLDERS, pairs):
        for type_, key, window_ends_at, queue, *row in (yield Statement(sql, params)):
            holders.put(type_, key, Holding(stored(tuple(row)), queue, window_ends_at))
    return holders
