"""Who holds the keys of a whole submission, looked up at once."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.idempotency import is_held
from fencepost.core.job import NewJob
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.parents import PARENT_COLUMNS, Stored, stored
from fencepost.store.sqlite.values import values

# Joined, not `(type, key) in (values ...)`: for that SQLite walks all keys that there are.
HOLDERS = f"""
with wanted(type, key) as ({{values}})
select wanted.type, wanted.key, idempotency.window_ends_at, {PARENT_COLUMNS} from wanted
cross join idempotency on idempotency.type = wanted.type and idempotency.key = wanted.key
cross join jobs on jobs.seq = idempotency.seq
"""


class Holders:
    """Jobs by the keys that they were the last to take."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._last: dict[tuple[str, str], tuple[Stored, int | None]] = {}

    def put(self, type: str, key: str, job: Stored, window_ends_at: int | None) -> None:
        """Note that *job* has taken a key."""
        self._last[type, key] = (job, window_ends_at)

    def get(self, type: str, key: str) -> Stored | None:
        """Return the job that holds a key now, if one does."""
        job, window_ends_at = self._last.get((type, key), (None, None))
        if job is None:
            return None
        is_live = not job.parent.state.is_terminal
        held = is_held(is_live=is_live, window_ends_us=window_ends_at, now_us=self._now)
        return job if held else None


def find_holders(jobs: Sequence[NewJob], now: int) -> Plan[Holders]:
    """Return who holds the keys of *jobs*."""
    holders = Holders(now)
    pairs = list({(job.type, job.key.value): None for job in jobs if job.key is not None})
    for sql, params in values(HOLDERS, pairs):
        for type_, key, window_ends_at, *row in (yield Statement(sql, params)):
            holders.put(type_, key, stored(tuple(row)), window_ends_at)
    return holders
