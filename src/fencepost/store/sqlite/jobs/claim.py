"""Leasing jobs: which, in what order, and no more than limits and rates allow.

One transaction of the whole store at a time runs here (the side-car lock), so that a count of
running jobs cannot be outdated by the time it is acted upon (S2-17, S2-24).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from fencepost.core.bounds import CLAIM_MAX, EXPIRE_BATCH, PROMOTE_BATCH, RECOVER_BATCH
from fencepost.core.limits.rates import soonest
from fencepost.core.limits.weights import deal
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.store.interface.batches import held_among
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.interface.replies import Moved
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.engine.savepoint import sheltered
from fencepost.store.sqlite.jobs.catalog import Env, Lane
from fencepost.store.sqlite.jobs.lease import lease
from fencepost.store.sqlite.jobs.upkeep import expire_at, promote_at, recover_at
from fencepost.store.sqlite.limits.rates import Budget, budget_for

# All that a claim has to know first, in one statement: the heads of three indexes, whether there
# are limits, and the lanes that have claimable jobs.
OUTLOOK = f"""
select
  (select min(lease_expires_at) from jobs where state = 3),
  (select min(run_at) from jobs where state in (2, 4)),
  (select min(expires_at) from jobs where completed_at is null),
  exists (select 1 from limits),
  exists (select 1 from rates),
  exists (select 1 from touched),
  (select json_group_array(json_array(lane, queue, type)) from lanes
   where {{asked}} exists (
     select 1 from jobs indexed by jobs_ready where jobs.lane = lanes.lane and state = 1
   ) and not exists (
     select 1 from pauses where scope = '{Scope.QUEUE}' and name = lanes.queue
   ) and not exists (
     select 1 from pauses where scope = '{Scope.TYPE}' and name = lanes.type
   ))
"""
OF_QUEUES = "queue in (select value from json_each(?)) and"
OF_TYPES = "type in (select value from json_each(?)) and"
NOT_OUR_OWN = f"substr(type, 1, {len(RESERVED_TYPES)}) <> '{RESERVED_TYPES}' and"
LIMITS = "select scope, name, max_running from limits"
RUNNING_IN_ALL = "select count(*) from jobs where state = 3 and lease_expires_at > ?"
RUNNING_BY_QUEUE = """
select lanes.queue, count(*) from jobs join lanes on lanes.lane = jobs.lane
where jobs.state = 3 and jobs.lease_expires_at > ? group by lanes.queue
"""
# A merge of ordered index scans, one a lane: it stops at the limit and sorts nothing.
LINE = """
select priority, run_at, seq from jobs indexed by jobs_ready where state = 1 and lane = ?
"""
MERGED_MAX = 100


class Outlook(NamedTuple):
    """When a lease runs out, a job falls due and a lifetime ends next; and what is ready now."""

    lease_expires_at: int | None
    run_at: int | None
    expires_at: int | None
    has_limits: int
    has_rates: int
    has_touched: int
    lanes: str


_lanes = msgspec.json.Decoder(list[Lane])


def _look(request: ClaimRequest) -> Plan[Outlook]:
    """Look ahead; of all lanes, only at those that are asked for."""
    queues = None if request.queues is None else tuple(request.queues)
    sql, params = _asked(queues, request.types, request.own_types)
    (row,) = yield Statement(sql, params)
    return Outlook(*row)


@lru_cache(maxsize=100)
def _asked(
    queues: tuple[str, ...] | None, types: frozenset[str] | None, own_types: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the statement that looks ahead, and its parameters: most claims repeat the last."""
    given = [(OF_QUEUES, queues), (OF_TYPES, types)]
    asked = [(sql, json.dumps(sorted(names))) for sql, names in given if names is not None]
    conditions = " ".join([*(sql for sql, _ in asked), *([] if own_types else [NOT_OUR_OWN])])
    return OUTLOOK.format(asked=conditions), tuple(names for _, names in asked)


def claim(env: Env, request: ClaimRequest) -> Plan[Claim]:
    """Recover, expire and promote what is due, then lease up to ``request.limit`` jobs.

    What of the former fails is left for later.
    """
    chores, now = env.chores, env.clock.now_us()
    ahead = yield from _look(request)
    recovered: list[Moved] = []
    expired: list[Moved] = []
    promoted: list[Moved] = []
    if _is_due(ahead.lease_expires_at, now):
        chore = recover_at(env, RECOVER_BATCH, now)
        recovered = yield from sheltered(env, chores, "recover", chore, [])
    if _is_due(ahead.expires_at, now):
        chore = expire_at(env, EXPIRE_BATCH, now)
        expired = yield from sheltered(env, chores, "expire", chore, [])
    # Recovering may have made jobs due at once.
    if recovered or ahead.has_touched or _is_due(ahead.run_at, now):
        chore = promote_at(env, PROMOTE_BATCH, now)
        promoted = yield from sheltered(env, chores, "promote", chore, [])
    if recovered or expired or promoted or ahead.has_touched:
        ahead = yield from _look(request)
    lanes = _by_queue(ahead)
    budget: Budget | None = None
    if ahead.has_rates and lanes:
        budget = yield from budget_for([lane for part in lanes.values() for lane in part], now)
        lanes = _allowed(lanes, budget)
    seqs = yield from _choose(request, lanes, budget, bool(ahead.has_limits), now)
    leasing = yield from lease(env, request, seqs, now)
    opens_at: int | None = None
    if budget is not None:
        budget.give_back(leasing.left)
        opens_at = yield from budget.note()
    return Claim(
        jobs=leasing.jobs,
        recovered=recovered,
        expired=expired,
        promoted=len(promoted),
        held=held_among(promoted),
        corrupt=leasing.corrupt,
        wait=chores.wait(_wait(ahead, leasing.ends_at, opens_at, now)),
    )


def _is_due(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now


def _wait(ahead: Outlook, lease_ends: int | None, opens_at: int | None, now: int) -> float | None:
    first = soonest((ahead.run_at, ahead.lease_expires_at, lease_ends, opens_at))
    return None if first is None else max(first - now, 0) / 1e6


def _allowed(lanes: dict[str, list[Lane]], budget: Budget) -> dict[str, list[Lane]]:
    """Return *lanes* without those of which nothing may start."""
    kept = {queue: [lane for lane in part if budget.allows(lane)] for queue, part in lanes.items()}
    return {queue: part for queue, part in kept.items() if part}


def _choose(
    request: ClaimRequest,
    lanes: dict[str, list[Lane]],
    budget: Budget | None,
    has_limits: bool,
    now: int,
) -> Plan[list[int]]:
    """Return the rows to lease: turns by weight, then what others left over."""
    if not lanes or request.limit <= 0:
        return []
    room = request.limit
    room_by_queue: dict[str, int] = {}
    if has_limits:
        room, room_by_queue = yield from _room(request, now)
    limit = min(request.limit, CLAIM_MAX, room)
    weights = dict.fromkeys(sorted(lanes), 1) if request.queues is None else request.queues
    shares = deal(weights, request.turn, max(limit, 0))
    chosen: dict[str, list[int]] = {}
    left = limit
    for queue in shares:
        wanted = min(shares[queue], room_by_queue.get(queue, shares[queue]), left)
        chosen[queue] = yield from _line(lanes.get(queue, []), wanted, budget)
        left -= len(chosen[queue])
    for queue in shares:
        if left <= 0:
            break
        wanted = min(len(chosen[queue]) + left, room_by_queue.get(queue, limit))
        if len(chosen[queue]) == shares[queue] and wanted > len(chosen[queue]):
            more = yield from _line(lanes.get(queue, []), wanted, budget)
            left -= len(more) - len(chosen[queue])
            chosen[queue] = more
    return [seq for queue in shares for seq in chosen[queue]]


def _by_queue(ahead: Outlook) -> dict[str, list[Lane]]:
    """Return the lanes that have claimable jobs for this worker, by queue."""
    lanes: dict[str, list[Lane]] = {}
    for lane in _lanes.decode(ahead.lanes):
        lanes.setdefault(lane.queue, []).append(lane)
    return lanes


def _room(request: ClaimRequest, now: int) -> Plan[tuple[int, dict[str, int]]]:
    """Return how many more jobs may run in all and in each limited queue."""
    limits = yield Statement(LIMITS)
    room = request.limit
    by_queue: dict[str, int] = {}
    if any(scope == Scope.QUEUE for scope, _, _ in limits):
        rows = yield Statement(RUNNING_BY_QUEUE, (now,))
        running: dict[str, int] = dict(rows)
        by_queue = {
            name: max(most - running.get(name, 0), 0)
            for scope, name, most in limits
            if scope == Scope.QUEUE
        }
    for scope, _, most in limits:
        if scope == Scope.APP:
            ((running_in_all,),) = yield Statement(RUNNING_IN_ALL, (now,))
            room = max(most - running_in_all, 0)
    return room, by_queue


def _line(lanes: Sequence[Lane], limit: int, budget: Budget | None) -> Plan[list[int]]:
    """Return the first *limit* rows of a queue's lanes that may start, in line order."""
    if limit <= 0 or not lanes:
        return []
    if budget is not None and budget.binds(lanes):
        return (yield from budget.line(lanes, limit))
    parts = [lanes[start : start + MERGED_MAX] for start in range(0, len(lanes), MERGED_MAX)]
    if len(parts) == 1:
        ((text,),) = yield Statement(_merge(len(lanes)), (*(lane.number for lane in lanes), limit))
        return _seqs.decode(text)
    heads: list[tuple[int, int, int]] = []
    for part in parts:
        numbers = [lane.number for lane in part]
        heads += yield Statement(_heads(len(part)), (*numbers, limit))
    return [seq for _, _, seq in sorted(heads)[:limit]]


@cache
def _heads(count: int) -> str:
    """Return the statement that merges the lines of *count* lanes."""
    return " union all ".join([LINE] * count) + " order by 1, 2, 3 limit ?"


@cache
def _merge(count: int) -> str:
    """Return the same in one row, and of each place in line the row that stands there."""
    return f"select json_group_array(seq) from ({_heads(count)})"


_seqs = msgspec.json.Decoder(list[int])
