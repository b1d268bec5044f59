"""Claims: which jobs, in what order, and no more than limits and rates allow.

The side-car lock lets one transaction of the whole store run at a time, so that a count of running
jobs is still true when it is used (S2-17, S2-24).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from fencepost.core.bounds import CLAIM_MAX, EXPIRE_BATCH, PROMOTE_BATCH, RECOVER_BATCH
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.weights import deal
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.store.chores import Chores
from fencepost.store.interface.queue import Claim, ClaimRequest, Moved
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import DELAYED, RETRYING, RUNNING, SCHEDULED
from fencepost.store.sqlite.jobs.catalog import Env, Lane
from fencepost.store.sqlite.jobs.lease import lease
from fencepost.store.sqlite.jobs.upkeep import expire, promote, recover
from fencepost.store.sqlite.limits.rates import Budget, budget_for

# What a claim needs first, in one statement: the heads of three indexes, whether there are limits,
# and the lanes that have claimable jobs.
OUTLOOK = f"""
select
  (select min(lease_expires_at) from jobs where state = {RUNNING}),
  (select min(run_at) from jobs where state in ({DELAYED}, {RETRYING})),
  (select min(expires_at) from jobs where completed_at is null),
  exists (select 1 from limits),
  exists (select 1 from type_limits),
  exists (select 1 from freed_slots),
  exists (select 1 from pauses),
  (select json_group_array(json_array(lane, queue, type)) from lanes
   where {{asked}} exists (
     select 1 from jobs indexed by jobs_ready where jobs.lane = lanes.lane and state = {SCHEDULED}
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
RUNNING_IN_ALL = f"select count(*) from jobs where state = {RUNNING} and lease_expires_at > ?"
RUNNING_BY_QUEUE = f"""
select lanes.queue, count(*) from jobs join lanes on lanes.lane = jobs.lane
where jobs.state = {RUNNING} and jobs.lease_expires_at > ? group by lanes.queue
"""
# A merge of ordered index scans, one per lane: it stops at the limit and sorts nothing.
LINE = f"""
select priority, run_at, seq from jobs indexed by jobs_ready where state = {SCHEDULED} and lane = ?
"""
MERGED_MAX = 100


class Outlook(NamedTuple):
    """When the next lease expires, job falls due and lifetime ends; and what is ready now."""

    lease_expires_at: int | None
    run_at: int | None
    expires_at: int | None
    has_limits: int
    has_type_limits: int
    has_freed_slots: int
    has_pauses: int
    lanes: str


_lanes = msgspec.json.Decoder(list[Lane])


def _look(request: ClaimRequest) -> Plan[Outlook]:
    """Read the outlook for the lanes that the request allows."""
    queues = None if request.queues is None else tuple(request.queues)
    sql, params = _asked(queues, request.types, request.own_types)
    (row,) = yield Statement(sql, params)
    return Outlook(*row)


@lru_cache(maxsize=100)
def _asked(
    queues: tuple[str, ...] | None, types: frozenset[str] | None, own_types: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the statement and its parameters, cached: most claims repeat the last one."""
    given = [(OF_QUEUES, queues), (OF_TYPES, types)]
    asked = [(sql, json.dumps(sorted(names))) for sql, names in given if names is not None]
    conditions = " ".join([*(sql for sql, _ in asked), *([] if own_types else [NOT_OUR_OWN])])
    return OUTLOOK.format(asked=conditions), tuple(names for _, names in asked)


def claim(env: Env, request: ClaimRequest) -> Plan[Claim]:
    """Recover, expire and promote what is due, then lease up to ``request.limit`` jobs.

    A failure of the former does not fail the claim.
    """
    chores, now = env.chores, env.clock.now_us()
    if request.after is not None:
        more = yield from _claim_after(env, request, request.after, now)
        if more is not None:
            return more
    ahead = yield from _look(request)
    recovered: list[Moved] = []
    expired: list[Moved] = []
    promoted: list[Moved] = []
    if _is_due(ahead.lease_expires_at, now):
        chore = recover(env, RECOVER_BATCH, now=now)
        recovered = yield from in_savepoint(env, chores, "recover", chore, [])
    if _is_due(ahead.expires_at, now):
        chore = expire(env, EXPIRE_BATCH, now)
        expired = yield from in_savepoint(env, chores, "expire", chore, [])
    # Recovering may have made jobs due at once.
    if recovered or ahead.has_freed_slots or _is_due(ahead.run_at, now):
        chore = promote(env, PROMOTE_BATCH, now)
        promoted = yield from in_savepoint(env, chores, "promote", chore, [])
    if recovered or expired or promoted or ahead.has_freed_slots:
        ahead = yield from _look(request)
    lanes = _by_queue(ahead)
    budget: Budget | None = None
    if ahead.has_type_limits and lanes:
        budget = yield from budget_for([lane for part in lanes.values() for lane in part], now)
        lanes = _allowed(lanes, budget)
    seqs = yield from _choose(request, lanes, budget, bool(ahead.has_limits), now)
    leasing = yield from lease(env, request, seqs, now)
    opens_at: int | None = None
    if budget is not None:
        budget.give_back(leasing.left)
        opens_at = yield from budget.note()
    wait = _wait(ahead, leasing.ends_at, opens_at, now)
    return Claim(
        jobs=leasing.jobs,
        recovered=recovered,
        expired=expired,
        promoted=len(promoted),
        held=sum(move.state is State.PENDING for move in promoted),
        corrupt=leasing.corrupt,
        wait=chores.wait(wait) if chores.until else wait,
        place=_place(ahead, lanes),
    )


def _claim_after(env: Env, request: ClaimRequest, lane: int, now: int) -> Plan[Claim | None]:
    """Lease more jobs of the lane that alone had some a moment ago; None if it has none now."""
    limit = min(request.limit, CLAIM_MAX)
    if limit <= 0:
        return None
    ((text,),) = yield Statement(_merge(1), (lane, limit))
    seqs = _seqs.decode(text)
    if not seqs:
        return None
    leasing = yield from lease(env, request, seqs, now)
    return Claim(jobs=leasing.jobs, corrupt=leasing.corrupt, wait=0.0, place=lane)


def _place(ahead: Outlook, lanes: dict[str, list[Lane]]) -> int | None:
    """Return the only lane with claimable jobs, if there are neither limits nor pauses."""
    if ahead.has_limits or ahead.has_type_limits or ahead.has_pauses or len(lanes) != 1:
        return None
    (only, *others) = next(iter(lanes.values()))
    return None if others else only.number


def _is_due(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now


def _wait(ahead: Outlook, lease_ends: int | None, opens_at: int | None, now: int) -> float | None:
    moments = (ahead.run_at, ahead.lease_expires_at, lease_ends, opens_at)
    waits = [moment - now for moment in moments if moment is not None]
    return max(min(waits), 0) / 1e6 if waits else None


def _allowed(lanes: dict[str, list[Lane]], budget: Budget) -> dict[str, list[Lane]]:
    """Return the *lanes* of which a job may start."""
    kept = {queue: [lane for lane in part if budget.allows(lane)] for queue, part in lanes.items()}
    return {queue: part for queue, part in kept.items() if part}


def _choose(
    request: ClaimRequest,
    lanes: dict[str, list[Lane]],
    budget: Budget | None,
    has_limits: bool,
    now: int,
) -> Plan[list[int]]:
    """Return the rows to lease: each queue's share by weight, then what others left over."""
    if not lanes or request.limit <= 0:
        return []
    room = request.limit
    room_by_queue: dict[str, int] = {}
    if has_limits:
        room, room_by_queue = yield from _room(request, now)
    limit = min(request.limit, CLAIM_MAX, room)
    weights = dict.fromkeys(sorted(lanes), 1) if request.queues is None else request.queues
    if len(weights) == 1:  # most workers serve one queue: there is nothing to deal
        shares = dict.fromkeys(weights, max(limit, 0))
    else:
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
    """Return the lanes of the outlook by queue."""
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
    """Return the first *limit* rows of a queue's lanes that may start, in order."""
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
    """Return the statement that merges *count* lanes."""
    return " union all ".join([LINE] * count) + " order by 1, 2, 3 limit ?"


@cache
def _merge(count: int) -> str:
    """Return the same statement, with all rows in one."""
    return f"select json_group_array(seq) from ({_heads(count)})"


_seqs = msgspec.json.Decoder(list[int])


T = TypeVar("T")

SAVEPOINT = Statement("savepoint chore")
ROLLBACK = Statement("rollback to chore")
RELEASE = Statement("release chore")


def in_savepoint(env: Env, chores: Chores, name: str, plan: Plan[T], instead: T) -> Plan[T]:
    """Run a chore in a savepoint; if it fails, undo it, log it and return *instead*."""
    if not chores.may(name):
        return instead
    yield SAVEPOINT
    try:
        result = yield from plan
    except Exception as error:  # noqa: BLE001 - no failure of a chore fails the claim
        yield ROLLBACK
        yield RELEASE
        env.catalog.forget()
        chores.failed(name, repr(error))
        return instead
    yield RELEASE
    chores.done(name)
    return result
