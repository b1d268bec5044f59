"""How often jobs of a type may start: the rates, and the uses that still count.

A claim reads and writes uses under the side-car lock, as all that writes does, so that no two
claimers see the same room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from fencepost.core.limits.rates import Rate, check_rates, soonest
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.jobs.catalog import Env, Lane

ALL = "select type, count, window_us from rates"
OF_TYPES = f"{ALL} where type in (select value from json_each(?))"
SET = """
insert into rates(type, count, window_us) values (?, ?, ?)
on conflict(type) do update set count = excluded.count, window_us = excluded.window_us
"""
CLEAR = "delete from rates where type = ?"
FORGET = "delete from uses where type = ? and at <= ?"
FORGET_ALL = "delete from uses where type = ?"
USED = "select coalesce(sum(count), 0), max(at) from uses where type = ? and at > ?"
USES = "select at, count from uses where type = ? and at > ? order by at"
NOTE = """
insert into uses(type, at, count) values (?, ?, ?)
on conflict(type, at) do update set count = count + excluded.count
"""
# Of each lane no more than its type may start; merged and cut in Python, a claim's worth at most.
LINE = """
select * from (
  select priority, run_at, seq, lane from jobs indexed by jobs_ready where state = 1 and lane = ?
  order by priority, run_at, seq limit ?
)
"""
PARTS_MAX = 100
HAS_JOBS = """
select distinct type from lanes where lane in (select value from json_each(?)) and exists (
  select 1 from jobs indexed by jobs_ready where jobs.lane = lanes.lane and state = 1
)
"""


def set_rates(env: Env, rates: Mapping[str, Rate | None]) -> Plan[None]:
    """Set or clear rates; a changed one goes on with what the old one has counted."""
    wanted = check_rates(rates)
    now = env.clock.now_us()
    known = yield from _read(wanted.keys())
    for type, rate in wanted.items():
        was = known.get(type)
        if rate == was:
            continue
        if rate is None:
            yield Statement(CLEAR, (type,))
            yield Statement(FORGET_ALL, (type,))
        else:
            yield Statement(SET, (type, rate.count, rate.window_us))
            if was is not None:
                yield Statement(FORGET, (type, now - was.window_us))


def rates_by_type() -> Plan[dict[str, Rate]]:
    """Return every rate."""
    rows = yield Statement(ALL)
    return {type: Rate(count, window_us / 1e6) for type, count, window_us in rows}


def _read(types: Collection[str]) -> Plan[dict[str, Rate]]:
    names = msgspec.json.encode(sorted(types)).decode()
    rows = yield Statement(OF_TYPES, (names,))
    return {type: Rate(count, window_us / 1e6) for type, count, window_us in rows}


def rate_of(type: str, now: int) -> Plan[tuple[Rate | None, int | None]]:
    """Return the rate of a type, and when its next job can start (None: now)."""
    rate = (yield from _read([type])).get(type)
    return rate, None if rate is None else (yield from _opens_at(type, rate, now))


def _opens_at(type: str, rate: Rate, now: int) -> Plan[int | None]:
    uses = yield Statement(USES, (type, now - rate.window_us))
    return rate.opens_at([(at, count) for at, count in uses], now)


def _set_back(type: str, rate: Rate, now: int) -> Plan[None]:
    """Move the uses of a type back: the clock was set back since the newest of them."""
    uses = yield Statement(USES, (type, now - rate.window_us))
    seen = rate.as_of([(at, count) for at, count in uses], now)
    yield Statement(FORGET_ALL, (type,))
    yield Statement(NOTE, [(type, at, count) for at, count in seen], many=True)


class Budget:
    """What one claim may start of the types that have a rate."""

    def __init__(self, now: int, lanes: Sequence[Lane], rates: dict[str, Rate]) -> None:
        self._now = now
        self._lanes = lanes
        self._rates = rates
        self._left: dict[str, int] = {}
        self._held: dict[str, Counter[str]] = {}
        self._returned: Counter[str] = Counter()

    def allows(self, lane: Lane) -> bool:
        """Tell whether anything of *lane* may start."""
        return self._left.get(lane.type, 1) > 0

    def binds(self, lanes: Sequence[Lane]) -> bool:
        return any(lane.type in self._left for lane in lanes)

    def count(self) -> Plan[None]:
        """Forget what no longer counts, and see what is left."""
        for type, rate in self._rates.items():
            since = self._now - rate.window_us
            yield Statement(FORGET, (type, since))
            ((used, newest),) = yield Statement(USED, (type, since))
            if newest is not None and newest > rate.moment(self._now):
                yield from _set_back(type, rate, self._now)
                ((used, _),) = yield Statement(USED, (type, since))
            self._left[type] = max(rate.count - used, 0)

    def line(self, lanes: Sequence[Lane], limit: int) -> Plan[list[int]]:
        """Return the first *limit* rows of the lanes of one queue that may start, in line order.

        Asked again for the same queue, it chooses anew: what it gave before is taken back.
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
        """Have so many jobs of each type not start after all."""
        self._returned = Counter({t: n for t, n in types.items() if t in self._left})
        for type, number in self._returned.items():
            self._left[type] += number

    def note(self) -> Plan[int | None]:
        """Write down what starts; return when more may, if more is there that may not now."""
        taken = sum(self._held.values(), Counter()) - self._returned
        if taken:
            rows = [(t, self._rates[t].moment(self._now), n) for t, n in taken.items()]
            yield Statement(NOTE, rows, many=True)
        spent = [lane for lane in self._lanes if self._left.get(lane.type) == 0]
        if not spent:
            return None
        numbers = msgspec.json.encode([lane.number for lane in spent]).decode()
        moments = []
        for (type,) in (yield Statement(HAS_JOBS, (numbers,))):
            moments.append((yield from _opens_at(type, self._rates[type], self._now)))
        return soonest(moments)


def budget_for(lanes: Sequence[Lane], now: int) -> Plan[Budget]:
    """Return what a claim at *now* that may take from *lanes* can start."""
    rates = yield from _read({lane.type for lane in lanes})
    budget = Budget(now, lanes, rates)
    yield from budget.count()
    return budget
