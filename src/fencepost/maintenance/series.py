"""The chore that samples a store's counts, and merges samples into coarser ones.

Every row is a function of what is in the store at its time. So it does not matter who writes it, or
whether two do; a leader that dies leaves a gap, whose counts the next sample has.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fencepost.core.bounds import SERIES_LOOK, SERIES_SAMPLE_MAX
from fencepost.core.stats.series import (
    FINEST,
    STEPS,
    Sample,
    aligned,
    decode_sample,
    encode_sample,
    merged,
    sample,
)
from fencepost.maintenance.maintenance import Chore
from fencepost.store.interface.records.series import SeriesRow
from fencepost.store.interface.store import Store


class Sampler:
    """Samples a store whenever a step has passed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[int, datetime] = {}

    async def step(self) -> int:
        """Write the rows that are due; return how many."""
        now = self._store.clock.now()
        count = 0
        for step in sorted(STEPS):
            at = aligned(now, step)
            if self._written.get(step) == at:
                continue
            found = await (self._sample(at) if step == FINEST else self._merge(step, at))
            if found is not None:
                row = SeriesRow(at, encode_sample(found))
                record = self._store.series.record(step, [row], STEPS[step])
                await self._store.run_async(record)
                count += 1
            self._written[step] = at
        return count

    async def _sample(self, at: datetime) -> Sample:
        store = self._store
        totals = await store.run_async(store.series.totals())
        queues = await store.run_async(store.overview.queues())
        since = at - timedelta(seconds=FINEST)
        page = await store.run_async(
            store.overview.ended(since, limit=SERIES_SAMPLE_MAX, newest_first=True)
        )
        return sample(totals, queues, page.jobs, at)

    async def _merge(self, step: int, at: datetime) -> Sample | None:
        """Return the samples of the last whole step as one; None if there are none."""
        finer = max(each for each in STEPS if each < step)
        since = at - timedelta(seconds=step)
        rows = await self._store.run_async(self._store.series.read(finer, since, at))
        return merged([decode_sample(row.body) for row in rows]) if rows else None


def sample_series(store: Store) -> Chore:
    """Return the chore that samples the store's counts."""
    sampler = Sampler(store)

    async def batch() -> tuple[int, bool]:
        return await sampler.step(), False

    return Chore("sample", SERIES_LOOK, batch)
