"""Series: samples of the store's counts at regular times, kept in rows of several steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.stats.series import LaneTotals
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class SeriesRow(msgspec.Struct, frozen=True):
    """A sample, as ``core.stats.series`` encodes it."""

    at: datetime
    body: bytes


class SeriesFacet(Facet, abstract=True):
    """Samples of counts at regular times. Nothing depends on them."""

    @operation(Effect.READ, has_content=False, is_long=True, name="series_totals")
    def totals(self) -> Operation[list[LaneTotals]]:
        """Return the counts of every queue and type that has had jobs, with what was pruned."""

    @operation(Effect.LEASE, has_content=False, name="record_series")
    def record(self, step: int, rows: Sequence[SeriesRow], keep: float) -> Operation[None]:
        """Keep rows of this step, in the place of those of the same time.

        Forgets rows that are *keep* seconds or more older than the last of *rows*.
        """

    @operation(Effect.READ, has_content=False, is_long=True, name="series")
    def read(self, step: int, since: datetime, until: datetime) -> Operation[list[SeriesRow]]:
        """Return the rows of this step after *since* up to *until*, the oldest first."""
