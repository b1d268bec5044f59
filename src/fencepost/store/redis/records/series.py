"""Samples of counts: a sorted set for each step, by time."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import datetime

from fencepost.core.job.lifecycle import State
from fencepost.core.stats.series import LaneTotals
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.store.interface.records.series import SeriesRow
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.records.overview import lane_counts
from fencepost.store.sql.codec import BY_NUMBER
from fencepost.store.sql.records.series import lane_totals

_TIME = struct.Struct(">Q")


def totals(env: Env) -> Plan[list[LaneTotals]]:
    """Return the counts of every queue and type, with what was pruned."""
    rows = yield from lane_counts(env)
    _, flat = yield from read(env, [b"HGETALL", env.key("pruned")])
    present = ((queue, type_, state or State.PENDING, count) for queue, type_, state, count in rows)
    return lane_totals(present, _pruned(flat))


def _pruned(flat: Sequence[bytes]) -> Iterator[tuple[str, str, State, int]]:
    for name, text in zip(flat[::2], flat[1::2], strict=True):
        number, queue, type_ = name.decode().split("\n")
        yield queue, type_, BY_NUMBER[int(number)], int(text)


def record(env: Env, step: int, rows: Sequence[SeriesRow], keep: float) -> Plan[None]:
    """Keep rows, and forget old ones of their step."""
    if not rows:
        return
    unit = Unit(env)
    key = env.key("series", str(step))
    for row in rows:
        at = to_us(row.at)
        unit.do(b"ZREMRANGEBYSCORE", key, at, at)
        # The time is part of a member: two samples may be alike, and a set has each member once.
        unit.do(b"ZADD", key, at, _TIME.pack(at) + row.body)
    last = max(to_us(row.at) for row in rows)
    unit.do(b"ZREMRANGEBYSCORE", key, b"-inf", last - seconds_to_us(keep))
    yield from unit.commit()


def read_rows(env: Env, step: int, since: datetime, until: datetime) -> Plan[list[SeriesRow]]:
    """Return the rows after *since* up to *until*."""
    key = env.key("series", str(step))
    _, members = yield from read(
        env, [b"ZRANGEBYSCORE", key, f"({to_us(since)}".encode(), to_us(until)]
    )
    return [SeriesRow(from_us(_TIME.unpack_from(each)[0]), each[8:]) for each in members]
