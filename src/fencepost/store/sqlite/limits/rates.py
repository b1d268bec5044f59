"""Limits of types, and how many jobs a claim may start under them.

A claim reads and writes uses of rates under the side-car lock, so that no two claims use the same
room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import NO_LIMITS, TypeLimits, TypeUsage, check_limits
from fencepost.core.values.times import from_us_or_none, to_us
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import SCHEDULED, decode_limits, encode_json
from fencepost.store.sqlite.jobs.catalog import Env, Lane

OF_TYPES = """
select type, limits from type_limits where type in (select value from json_each(?))
"""
SET = """
insert into type_limits(type, limits) values (?, ?)
on conflict(type) do update set limits = excluded.limits
"""
CLEAR = "delete from type_limits where type = ?"
FORGET = "delete from rate_uses where type = ? and at <= ?"
FORGET_ALL = "delete from rate_uses where type = ?"
USED = "select coalesce(sum(count), 0), max(at) from rate_uses where type = ? and at > ?"
USES = "select at, count from rate_uses where type = ? and at > ? order by at"
NOTE = """
insert into rate_uses(type, at, count) values (?, ?, ?)
on conflict(type, at) do update set count = count + excluded.count
"""
# Of each lane no more than its type may start; merged and cut in Python.
LINE = f"""
select * from (
  select priority, run_at, seq, lane from jobs indexed by jobs_ready
  where state = {SCHEDULED} and lane = ?
  order by priority, run_at, seq limit ?
)
"""
PARTS_MAX = 100
HAS_JOBS = f"""
select distinct type from lanes where lane in (select value from json_each(?)) and exists (
  select 1 from jobs indexed by jobs_ready where jobs.lane = lanes.lane and state = {SCHEDULED}
)
"""


def limit_types(env: Env, limits: Mapping[str, TypeLimits]) -> Plan[None]:
    """Set or clear limits of types; a changed rate keeps the uses that still count."""
    wanted = check_limits(limits)
    now = env.clock.now_us()
    known = yield from _read(wanted.keys())
    for type, new in wanted.items():
        was = known.get(type, NO_LIMITS)
        if new == was:
            continue
        if new == NO_LIMITS:
            yield Statement(CLEAR, (type,))
        else:
            yield Statement(SET, (type, encode_json(new)))
        if new.rate is None:
            yield Statement(FORGET_ALL, (type,))
        elif was.rate is not None:
            yield Statement(FORGET, (type, now - was.rate.window_us))


def _read(types: Collection[str]) -> Plan[dict[str, TypeLimits]]:
    rows = yield Statement(OF_TYPES, (encode_json(sorted(types)),))
    return {type: decode_limits(text) for type, text in rows}


def usage_of(type: str, now: int) -> Plan[tuple[TypeLimits, TypeUsage]]:
    """Return the limits of a type, and how far they are used up."""
    limits = (yield from _read([type])).get(type, NO_LIMITS)
    return limits, (yield from _usage(type, limits, now))


def _usage(type: str, limits: TypeLimits, now: int) -> Plan[TypeUsage]:
    opens_at: int | None = None
    if (rate := limits.rate) is not None:
        uses = yield Statement(USES, (type, now - rate.window_us))
        opens_at = rate.opens_at([(at, count) for at, count in uses], now)
    return TypeUsage(rate_opens_at=from_us_or_none(opens_at))


def _set_back(type: str, rate: Rate, now: int) -> Plan[None]:
    """Move the uses of a type back, after the clock was set back."""
    uses = yield Statement(USES, (type, now - rate.window_us))
    seen = rate.as_of([(at, count) for at, count in uses], now)
    yield Statement(FORGET_ALL, (type,))
    yield Statement(NOTE, [(type, at, count) for at, count in seen], many=True)


class Budget:
    """How many jobs one claim may start of types that have limits."""

    def __init__(self, now: int, lanes: Sequence[Lane], limits: dict[str, TypeLimits]) -> None:
        self._now = now
        self._lanes = lanes
        self._limits = limits
        self._left: dict[str, int] = {}
        self._held: dict[str, Counter[str]] = {}
        self._returned: Counter[str] = Counter()

    def allows(self, lane: Lane) -> bool:
        """Return whether a job of *lane* may start."""
        return self._left.get(lane.type, 1) > 0

    def binds(self, lanes: Sequence[Lane]) -> bool:
        return any(lane.type in self._left for lane in lanes)

    def count(self) -> Plan[None]:
        """Compute how many jobs of each type may start."""
        for type, limits in self._limits.items():
            if limits.rate is not None:
                self._left[type] = yield from self._starts_left(type, limits.rate)

    def _starts_left(self, type: str, rate: Rate) -> Plan[int]:
        """Delete uses of a rate that no longer count, and return what is left of it."""
        since = self._now - rate.window_us
        yield Statement(FORGET, (type, since))
        ((used, newest),) = yield Statement(USED, (type, since))
        if newest is not None and newest > rate.moment(self._now):
            yield from _set_back(type, rate, self._now)
            ((used, _),) = yield Statement(USED, (type, since))
        return max(rate.count - int(used), 0)

    def line(self, lanes: Sequence[Lane], limit: int) -> Plan[list[int]]:
        """Return the first *limit* rows of the lanes of one queue that may start, in order.

        A second call for the same queue replaces the choice of the first.
        """
        queue = lanes[0].queue
        for type, number in self._held.pop(queue, Counter()).items():
            self._left[type] += number
        return (yield from self._choose(queue, lanes, limit))

    def _choose(self, queue: str, lanes: Sequence[Lane], limit: int) -> Plan[list[int]]:
        heads = []
        for start in range(0, len(lanes), PARTS_MAX):
            part = lanes[start : start + PARTS_MAX]
            caps = [min(limit, self._left.get(lane.type, limit)) for lane in part]
            params = [
                item for lane, cap in zip(part, caps, strict=True) for item in (lane.number, cap)
            ]
            heads += yield Statement(" union all ".join([LINE] * len(part)), params)
        chosen = sorted(heads)[:limit]
        types = {lane.number: lane.type for lane in lanes}
        taken = Counter(types[number] for *_, number in chosen)
        self._held[queue] = Counter({t: n for t, n in taken.items() if t in self._left})
        for type, number in self._held[queue].items():
            self._left[type] -= number
        return [seq for _, _, seq, _ in chosen]

    def give_back(self, types: Counter[str]) -> None:
        """Return what was chosen and not leased, by type."""
        self._returned = Counter({t: n for t, n in types.items() if t in self._left})
        for type, number in self._returned.items():
            self._left[type] += number

    def note(self) -> Plan[int | None]:
        """Record the starts; return when more jobs may start, if a rate holds some back."""
        taken = sum(self._held.values(), Counter()) - self._returned
        rates = {type: limits.rate for type, limits in self._limits.items()}
        rows = [(t, r.moment(self._now), taken[t]) for t, r in rates.items() if r and taken[t]]
        if rows:
            yield Statement(NOTE, rows, many=True)
        spent = [lane for lane in self._lanes if self._left.get(lane.type) == 0]
        if not spent:
            return None
        numbers = encode_json([lane.number for lane in spent])
        moments = []
        for (type,) in (yield Statement(HAS_JOBS, (numbers,))):
            usage = yield from _usage(type, self._limits[type], self._now)
            if usage.opens_at is not None:
                moments.append(to_us(usage.opens_at))
        return min(moments, default=None)


def budget_for(lanes: Sequence[Lane], now: int) -> Plan[Budget]:
    """Return the budget of a claim at *now* from *lanes*."""
    limits = yield from _read({lane.type for lane in lanes})
    budget = Budget(now, lanes, limits)
    yield from budget.count()
    return budget
