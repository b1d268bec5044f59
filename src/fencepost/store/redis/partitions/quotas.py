"""The limit of the whole app: quotas of partitions, which the home hands out.

A claim counts what runs in its partition, in one step, and starts no more than the partition's
quota. The home has the limit, and a *bound* for every partition. What holds at any time:

- No more can run in a partition than its bound, and all bounds together are at most the limit.
- A bound is raised first, in the home, and the quota after it. A quota is lowered first, in the
  partition; then what runs there is counted; then the bound is lowered to the larger of the two.
- Every change of bounds has a number, and a partition refuses a change that is older than the last
  one it received: a raise or a reduction that was delayed cannot undo a later one.

Quotas belong to partitions, not to processes. A process that dies half-way leaves a bound that is
higher than what can run; the next process that asks for room lowers it. Only a claim that leaves
jobs waiting because of the quota comes here, so only stores with such a limit pay for it.

While a new limit takes effect, the home raises no bound. If the process that sets the limit dies
half-way, the next process that notices completes the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fencepost.core.limits.concurrency import check_max_running
from fencepost.core.limits.quotas import Level, Wish, share
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.partitions.home import APP, NUMBER
from fencepost.store.redis.partitions.hub import HOME, LOOK, SHARE, WRITE, Hub

OPENING = b"opening"
"""The field beside the bounds that says that a new limit is about to take effect."""
WISH_US = 3_000_000
"""For how long a request for room counts after it was last seen: claims poll more often."""
TRIES = 5
UNLIMITED = 1 << 53


class Grants(NamedTuple):
    """What the home knows."""

    now: int
    limit: int | None
    number: int
    is_opening: bool
    bounds: dict[int, int]
    wishes: dict[int, Wish]
    recent: frozenset[int]
    """Requests that were noted recently and need not be noted again yet."""


def grants(env: Env) -> Plan[Grants]:
    """Return the limit and the bounds, in the home."""
    now, limit, flat, wishes = yield from read(
        env,
        [b"HGET", env.key("limits"), APP],
        [b"HGETALL", env.key("bounds")],
        [b"HGETALL", env.key("wishes")],
    )
    found = dict(zip(flat[::2], flat[1::2], strict=True))
    number, is_opening = int(found.pop(NUMBER, 0)), found.pop(OPENING, None) is not None
    wished: dict[int, Wish] = {}
    recent: set[int] = set()
    for name, text in zip(wishes[::2], wishes[1::2], strict=True):
        since, seen, count = map(int, text.split())
        if seen <= now < seen + WISH_US:
            wished[int(name)] = Wish(since, count)
            if now < seen + WISH_US // 3:
                recent.add(int(name))
    bounds = {int(name): int(bound) for name, bound in found.items()}
    most = None if limit is None else int(limit)
    return Grants(now, most, number, is_opening, bounds, wished, frozenset(recent))


def _change(
    env: Env,
    number: int,
    bounds: Mapping[int, int],
    wishes: Mapping[int, Wish | None],
) -> Plan[bool]:
    """Change bounds in the home, unless another change came first; return whether it was made."""
    unit = Unit(env)
    now = yield from unit.start()
    key = env.key("bounds")
    if int((yield from unit.field(key, NUMBER)) or 0) != number:
        return False
    unit.set_field(key, NUMBER, str(number + 1).encode())
    yield from unit.field(key, OPENING)
    unit.set_field(key, OPENING, None)
    for place, bound in bounds.items():
        unit.do(b"HSET", key, place, bound)
    for place, wish in wishes.items():
        if wish is None:
            unit.do(b"HDEL", env.key("wishes"), place)
        else:
            unit.do(b"HSET", env.key("wishes"), place, f"{wish.since} {now} {wish.more}")
    yield from unit.commit()
    return True


def _begin(env: Env, limit: int | None) -> Plan[int]:
    """Set the limit in the home, from when on no bound is raised; return the number of this."""
    unit = Unit(env)
    key = env.key("bounds")
    number = int((yield from unit.field(key, NUMBER)) or 0) + 1
    unit.set_field(key, NUMBER, str(number).encode())
    if limit is None:
        unit.do(b"HDEL", env.key("limits"), APP)
    else:
        unit.do(b"HSET", env.key("limits"), APP, limit)
        yield from unit.field(key, OPENING)
        unit.set_field(key, OPENING, b"1")
    yield from unit.commit()
    return number


# In a partition.


def level(env: Env) -> Plan[Level]:
    """Return how a partition stands."""
    now, quota = yield from read(env, [b"HGET", env.key("limits"), APP])
    _, running = yield from read(env, [b"ZCOUNT", env.key("leases"), f"({now}", b"+inf"])
    return Level(UNLIMITED if quota is None else int(quota), running)


def lower(env: Env, number: int, quota: int) -> Plan[bool]:
    """Lower the quota of a partition, and refuse whatever was decided up to *number*."""
    unit = Unit(env)
    key, limits = env.key("bounds"), env.key("limits")
    known = int((yield from unit.field(key, NUMBER)) or 0)
    if known > number:
        return False
    own = yield from unit.field(limits, APP)
    unit.set_field(key, NUMBER, str(number).encode())
    unit.set_field(limits, APP, str(quota if own is None else min(int(own), quota)).encode())
    yield from unit.commit()
    return True


def _raise(env: Env, number: int, quota: int | None) -> Plan[bool]:
    """Give a partition a quota, or none, unless something newer was decided."""
    unit = Unit(env)
    key, limits = env.key("bounds"), env.key("limits")
    if int((yield from unit.field(key, NUMBER)) or 0) >= number:
        return False
    unit.set_field(key, NUMBER, str(number).encode())
    yield from unit.field(limits, APP)
    unit.set_field(limits, APP, None if quota is None else str(quota).encode())
    yield from unit.commit()
    return True


# Over all partitions.


def set_limit(hub: Hub, limit: int | None) -> Plan[None]:
    """Limit how many jobs run at once in all partitions; when it returns, the limit holds."""
    check_max_running(limit)
    number = yield from hub.ask(HOME, SHARE, _begin, limit)
    known = sorted((yield from hub.refresh()))
    if limit is None:
        yield from hub.each([hub.at(each).plan(SHARE, _raise, number, None) for each in known])
    else:
        yield from _open(hub, number)


def _open(hub: Hub, number: int) -> Plan[bool]:
    """Let a new limit take effect: take all quotas back, and count what runs."""
    known = yield from hub.refresh()
    bounds = yield from _reduce(hub, number, dict.fromkeys(sorted(known), 0))
    if bounds.keys() != known:
        return False  # something newer was decided
    return bool((yield from hub.ask(HOME, WRITE, _change, number, bounds, {})))


def _reduce(hub: Hub, number: int, quotas: Mapping[int, int]) -> Plan[dict[int, int]]:
    """Lower quotas; return the bounds of the partitions where that was done."""
    calls = [hub.at(each).plan(WRITE, lower, number, quota) for each, quota in quotas.items()]
    done = (yield from hub.each(calls)) if calls else []
    lowered = [each for each, is_done in zip(quotas, done, strict=True) if is_done]
    levels = yield from _levels(hub, lowered)
    return {each: levels[each].bound for each in lowered}


def _levels(hub: Hub, numbers: Iterable[int]) -> Plan[dict[int, Level]]:
    asked = list(numbers)
    found = (yield from hub.each([hub.at(each).plan(LOOK, level) for each in asked])) or []
    return dict(zip(asked, found, strict=True))


def _levels_as_far(hub: Hub, bounds: Mapping[int, int]) -> Plan[dict[int, Level]]:
    """Return how partitions stand; one that is away has as many jobs as its bound allows."""
    found = yield from hub.attempt([hub.at(each).plan(LOOK, level) for each in bounds])
    return {
        place: each if isinstance(each, Level) else Level(bound, bound)
        for (place, bound), each in zip(bounds.items(), found, strict=True)
    }


def make_room(hub: Hub, wanted: Mapping[int, int], content: Collection[int]) -> Plan[list[int]]:
    """Let partitions start more jobs, if the limit allows it; return those that may now.

    Others are known to be *content* with what they have.
    """
    for _ in range(TRIES):
        known: Grants = yield from hub.ask(HOME, LOOK, grants)
        if known.limit is None:  # removed, but by a process that died half-way
            calls = [hub.at(each).plan(SHARE, _raise, known.number, None) for each in wanted]
            done = yield from hub.each(calls)
            return [each for each, is_done in zip(wanted, done, strict=True) if is_done]
        if known.is_opening:
            yield from _open(hub, known.number)
            continue
        raised = yield from _share(hub, known, known.limit, wanted, content)
        if raised is not None:
            return raised
    return []


def _share(
    hub: Hub, known: Grants, limit: int, wanted: Mapping[int, int], content: Collection[int]
) -> Plan[list[int] | None]:
    """Move quotas to where they are wanted; None if another change came first."""
    wishes = {place: wish for place, wish in known.wishes.items() if place not in content} | {
        place: Wish(known.wishes[place].since if place in known.wishes else known.now, count)
        for place, count in wanted.items()
    }
    held = {place: bound for place, bound in known.bounds.items() if bound}
    levels = yield from _levels_as_far(hub, {**dict.fromkeys(wishes, 0), **held})
    quotas = share(limit, levels, wishes)
    less = {
        place: min(each.quota, quotas[place])
        for place, each in levels.items()
        if each.quota > quotas[place] or each.bound < known.bounds.get(place, 0)
    }
    bounds = known.bounds | (yield from _reduce(hub, known.number, less))
    raised: dict[int, int] = {}
    for place, quota in quotas.items():
        has = levels[place]
        if quota <= has.quota:
            continue
        own = bounds.get(place, 0)
        reachable = min(quota, own + max(limit - sum(bounds.values()), 0))
        if reachable > has.quota:
            raised[place] = reachable
            bounds[place] = max(own, reachable)
    moved = less.keys() | raised.keys()
    noted: dict[int, Wish | None] = dict.fromkeys(known.wishes.keys() & content)
    for place, wish in wishes.items():
        if raised.get(place, 0) >= levels[place].running + wish.more:
            noted[place] = None
        elif place in moved:
            noted[place] = wish._replace(since=known.now)
        elif place in wanted and place not in known.recent:
            noted[place] = wish
    if bounds == known.bounds and not noted:
        return []
    if not (yield from hub.ask(HOME, WRITE, _change, known.number, bounds, noted)):
        return None
    calls = [
        hub.at(place).plan(SHARE, _raise, known.number + 1, quota)
        for place, quota in raised.items()
    ]
    if calls:
        yield from hub.each(calls)
    return [place for place in raised if place in wanted]


def running(hub: Hub) -> Plan[int]:
    """Return how many jobs run in all partitions."""
    levels = yield from _levels(hub, sorted((yield from hub.refresh())))
    return sum(each.running for each in levels.values())
