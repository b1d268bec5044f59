"""The chore that samples a store's counts, and merges samples into coarser ones.

Every row is a function of what is in the store at its time. So it does not matter who writes it, or
whether two do; a leader that dies leaves a gap, whose counts the next sample has. What it has not
merged, the next leader merges.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from fencepost.core.bounds import SERIES_LOOK, SERIES_SAMPLE_MAX
from fencepost.core.stats.series import (
    FINEST,
    LONGEST,
    SOURCES,
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

LOOK_FACTOR = 4


class Sampler:
    """Samples a store whenever a step has passed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[int, datetime] = {}

    async def step(self) -> int:
        """Write the rows that are due; return how many."""
        now = self._store.clock.now()
        count = 0
        if not self._written:
            # What leaders before have left: with the first sample, old ones are forgotten.
            before = now - timedelta(seconds=FINEST)
            for step in SOURCES:
                count += await self._record(step, await self._merge(step, aligned(before, step)))
        for step in STEPS:
            at = aligned(now, step)
            if self._written.get(step) != at:
                rows = await (self._sample(at) if step == FINEST else self._merge(step, at))
                count += await self._record(step, rows)
                self._written[step] = at
        return count

    async def _record(self, step: int, rows: list[SeriesRow]) -> int:
        if rows:
            await self._store.run_async(self._store.series.record(step, rows, STEPS[step]))
        return len(rows)

    async def _sample(self, at: datetime) -> list[SeriesRow]:
        store = self._store
        totals = await store.run_async(store.series.totals())
        queues = await store.run_async(store.overview.queues())
        since = at - timedelta(seconds=FINEST)
        page = await store.run_async(
            store.overview.ended(since, limit=SERIES_SAMPLE_MAX, newest_first=True)
        )
        return [SeriesRow(at, encode_sample(sample(totals, queues, page.jobs, at)))]

    async def _merge(self, step: int, at: datetime) -> list[SeriesRow]:
        """Return a row for each whole step up to *at* that has finer rows, and none yet."""
        last = self._written.get(step) or await self._last(step, at)
        finer: dict[datetime, list[Sample]] = {}
        for row in await self._read(SOURCES[step], last, at):
            end = aligned(row.at - timedelta.resolution, step) + timedelta(seconds=step)
            with suppress(msgspec.MsgspecError):  # a newer version may have written it
                finer.setdefault(end, []).append(decode_sample(row.body))
        return [SeriesRow(end, encode_sample(merged(some))) for end, some in finer.items() if some]

    async def _last(self, step: int, at: datetime) -> datetime:
        """Return the time of the newest row of a step, which a leader before may have written.

        Rows can be long, so it looks back for a short time first; none is forgotten while nobody
        writes.
        """
        back = float(step)
        while True:
            since = at - timedelta(seconds=back)
            rows = await self._read(step, since, at)
            if rows or back >= LONGEST:
                return rows[-1].at if rows else since
            back = min(back * LOOK_FACTOR, LONGEST)

    async def _read(self, step: int, since: datetime, until: datetime) -> list[SeriesRow]:
        return await self._store.run_async(self._store.series.read(step, since, until))


def sample_series(store: Store) -> Chore:
    """Return the chore that samples the store's counts."""
    sampler = Sampler(store)

    async def batch() -> tuple[int, bool]:
        return await sampler.step(), False

    return Chore("sample", SERIES_LOOK, batch)
