"""Samples of a store's counts: plans over the SQL of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from fencepost.core.job.lifecycle import State
from fencepost.core.stats.series import LaneTotals
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.records.series import SeriesRow
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import BY_NUMBER, Codec, SqlEnv


class SeriesSql(NamedTuple):
    """Statements about series, with their parameters."""

    counts: str
    """returns queue, type, state and count"""
    pruned: str
    """the same of jobs that are gone"""
    record: str
    """step, time, body"""
    trim: str
    """step, the time of the last row, microseconds to keep"""
    read: str
    """step, since, until; returns time and body"""


class SeriesPlans(NamedTuple):
    sql: SeriesSql
    codec: Codec

    def totals(self, env: SqlEnv) -> Plan[list[LaneTotals]]:
        """Return the counts of every queue and type, with what was pruned."""
        counts = yield Statement(self.sql.counts)
        pruned = yield Statement(self.sql.pruned)
        return lane_totals(
            ((queue, type_, BY_NUMBER[number], count) for queue, type_, number, count in counts),
            ((queue, type_, BY_NUMBER[number], count) for queue, type_, number, count in pruned),
        )

    def record(self, env: SqlEnv, step: int, rows: Sequence[SeriesRow], keep: float) -> Plan[None]:
        """Keep rows, and forget old ones of their step."""
        for row in rows:
            yield Statement(self.sql.record, (step, self.codec.encode_time(row.at), row.body))
        if rows:
            last = self.codec.encode_time(max(row.at for row in rows))
            yield Statement(self.sql.trim, (step, last, seconds_to_us(keep)))

    def read(
        self, env: SqlEnv, step: int, since: datetime, until: datetime
    ) -> Plan[list[SeriesRow]]:
        """Return the rows after *since* up to *until*."""
        times = map(self.codec.encode_time, (since, until))
        rows: Sequence[Row] = yield Statement(self.sql.read, (step, *times))
        return [SeriesRow(self.codec.decode_time(at), bytes(body)) for at, body in rows]


Count = tuple[str, str, State, int]


def lane_totals(counts: Iterable[Count], pruned: Iterable[Count]) -> list[LaneTotals]:
    """Return counts by queue and type; what was pruned only where the lane is still known."""
    lanes: dict[tuple[str, str], LaneTotals] = {}
    for queue, type_, state, count in counts:
        lane = lanes.setdefault((queue, type_), LaneTotals(queue, type_, {}, {}))
        if count:
            lane.counts[state] = lane.counts.get(state, 0) + count
    for queue, type_, state, count in pruned:
        if (queue, type_) in lanes:
            lanes[queue, type_].pruned[state] = count
    return [lanes[name] for name in sorted(lanes)]
