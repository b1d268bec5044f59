"""Upkeep: recover, expire, promote, prune. Each is bounded and safe to run twice at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from fencepost.core.bounds import LANE_IDLE, PRUNE_SCAN
from fencepost.core.job.lifecycle import TERMINAL, State, promoted
from fencepost.core.job.outcome import Released, decide, expired
from fencepost.core.job.timeouts import deadline, run_out
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import Moved, with_admitted
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.commit import PAIRS_MAX, at_once
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.places import BLOCK
from fencepost.store.redis.documents.unit import Unit, close_numbers
from fencepost.store.redis.flows.dependents import end_all
from fencepost.store.redis.jobs.catalog import Env, field, number_of
from fencepost.store.redis.jobs.finish import KeptEnding
from fencepost.store.redis.jobs.lease import make_token
from fencepost.store.redis.limits.concurrency import admit, scope_of
from fencepost.store.sql.codec import NUMBER

BLOCKS_MAX = 16
"""How many blocks of jobs one pass looks at."""
ENDED = [str(NUMBER[state]) for state in TERMINAL]


def _overdue(unit: Unit, index: str, limit: int) -> Plan[list[Kept]]:
    """Return the jobs whose time in an index has come, in order."""
    now = yield from unit.start()
    key = unit.env.key(index)
    (numbers,) = yield from unit.read(
        [b"ZRANGEBYSCORE", key, b"-inf", now, b"LIMIT", 0, max(limit, 0)]
    )
    found = yield from unit.jobs(map(number_of, numbers))
    return list(found.values())


def recover(env: Env, limit: int, unstarted: Collection[str] = ()) -> Plan[list[Moved]]:
    """Recover up to *limit* jobs whose leases expired; each that started is a failed attempt."""
    unit = Unit(env)
    endings = []
    for kept in (yield from _overdue(unit, "leases", limit)):
        lease = kept.lease
        if lease is None or lease.expires_at > unit.now:
            continue
        is_overdue = lease.expires_at >= deadline(kept.policy, lease.started_at, lease.grace)
        has_started = make_token(kept.seq, lease.token) not in unstarted
        outcome = run_out(kept.policy, is_overdue=is_overdue) if has_started else Released()
        endings.append(KeptEnding(kept, decide(kept, outcome, env.rng)))
    return (yield from _end(unit, endings))


def expire(env: Env, limit: int) -> Plan[list[Moved]]:
    """Dead-letter up to *limit* live jobs past their lifetime."""
    unit = Unit(env)
    now = yield from unit.start()
    part = [b"ZRANGEBYSCORE", env.key("lifetimes"), b"-inf", now, b"LIMIT", 0, BLOCKS_MAX]
    (names,) = yield from unit.read(part)
    overdue: list[tuple[int, int]] = []
    for name in names:
        if len(overdue) >= limit:
            break
        block = int(name)
        # In a unit of its own: only what ends is relied on.
        jobs = yield from Unit(env).jobs(range(block * BLOCK, (block + 1) * BLOCK))
        overdue += [
            (kept.document.expires_at, kept.seq)
            for kept in jobs.values()
            if not kept.state.is_terminal and kept.document.expires_at <= now
        ]
        unit.at_last(b"AGE", block, ENDED)
    chosen = yield from unit.jobs(seq for _, seq in sorted(overdue)[: max(limit, 0)])
    endings = [
        KeptEnding(kept, expired(kept.state))
        for kept in chosen.values()
        if not kept.state.is_terminal
    ]
    if names and not endings and limit > 0:
        yield from unit.commit()
    return (yield from _end(unit, endings))


def _end(unit: Unit, endings: Sequence[KeptEnding]) -> Plan[list[Moved]]:
    if not endings:
        return []
    moves, followed = yield from end_all(unit, endings)
    yield from unit.commit()
    if followed:
        moves[0] = replace(moves[0], followed=followed)
    return moves


def promote(env: Env, limit: int) -> Plan[list[Moved]]:
    """Make up to *limit* due jobs claimable, as far as their concurrency keys allow."""
    unit = Unit(env)
    jobs = yield from _overdue(unit, "due", limit)
    noted = yield from _noted(unit)
    moved = []
    for kept in jobs:
        was = kept.state
        if was not in (State.DELAYED, State.RETRYING):
            continue
        state = promoted(was, has_key=kept.document.concurrency_key is not None)
        kept.set_state(state)
        kept.document.updated_at = unit.now
        if state is State.SCHEDULED:
            kept.document.scheduled_at = unit.now
        moved.append(Moved(kept.id, kept.type, state, was))
    admitted = yield from admit(unit, [*noted, *map(scope_of, jobs)])
    yield from unit.commit()
    return with_admitted(moved, admitted) if moved else []


def _noted(unit: Unit) -> Plan[list[tuple[str, str]]]:
    """Return keys whose slots were noted as free, and forget the note; the next call has more."""
    freed = unit.env.key("freed")
    (names,) = yield from unit.read([b"SRANDMEMBER", freed, PAIRS_MAX])
    if names:
        unit.do(b"SREM", freed, *names)
    found = [name.decode().partition("\n") for name in names]
    return [(type_, key) for type_, _, key in found]


def prune(env: Env, request: PruneRequest) -> Plan[Pruned]:
    """Delete terminal jobs whose retention has ended.

    A pass begins with lanes that have been empty for long. It reads jobs in the order of
    submission, a bounded range at a time, and ends at the first that is younger than every
    retention.
    """
    if request.limit <= 0:
        return Pruned(0, request.after)
    if request.after == 0:
        yield from at_once(_prune_lanes(env))
    unit = Unit(env)
    now = yield from unit.start()
    last, low = yield from unit.read([b"GET", env.key("seq")], [b"GET", env.key("low")])
    end = int(last or 0)
    start = max(request.after, int(low or 0)) + 1
    shortest = request.shortest
    if shortest is None:
        return Pruned(0, None)
    jobs: dict[int, Kept] = {}
    while start <= end and not jobs:
        upto = min(start + PRUNE_SCAN - 1, end)
        jobs = yield from unit.jobs(range(start, upto + 1))
        if not jobs:
            if request.after < start == int(low or 0) + 1:
                if not (yield from _is_over(env, start, upto)):
                    break
                unit.do(b"SET", env.key("low"), upto)
                low = upto
            start = upto + 1
    if not jobs:
        yield from unit.commit()
        return Pruned(0, None)
    first = jobs[min(jobs)]
    if first.document.created_at + seconds_to_us(shortest) > now:
        return Pruned(0, None)
    chosen: list[Kept] = []
    for kept in (each for each in jobs.values() if _is_old(each, request, now)):
        if len(chosen) == request.limit:
            break
        if not (yield from _is_needed(unit, kept)):
            chosen.append(kept)
    for kept in chosen:
        unit.delete(kept)
        name = field(NUMBER[kept.state], kept.queue, kept.type)
        unit.do(b"HINCRBY", env.key("pruned"), name, 1)
    yield from unit.commit()
    if len(chosen) == request.limit:
        return Pruned(len(chosen), chosen[-1].seq)
    return Pruned(len(chosen), upto if upto < end else None)


def _is_over(env: Env, start: int, upto: int) -> Plan[bool]:
    """Tell whether no job has one of these numbers, or ever will.

    A submission reserves its numbers a moment before it commits: without this, nobody who reads
    jobs in their order would ever see the one that came in that moment.
    """
    yield from at_once(close_numbers(env, upto))
    return not (yield from Unit(env).jobs(range(start, upto + 1)))


def _is_old(kept: Kept, request: PruneRequest, now: int) -> bool:
    keep = request.keep_by_type.get(kept.type, request.keep).get(kept.state)
    ended = kept.document.completed_at
    if not kept.state.is_terminal or keep is None or ended is None:
        return False
    return ended + seconds_to_us(keep) <= now


def _is_needed(unit: Unit, kept: Kept) -> Plan[bool]:
    """Tell whether a dependent may still read its result, or its key is still held.

    The key of a job that is not needed goes with it.
    """
    document = kept.document
    if document.children:
        (seqs,) = yield from unit.children([kept])
        children = yield from unit.jobs(seqs)
        if any(not child.state.is_terminal for child in children.values()):
            return True
    if document.key is not None:
        keys, name = unit.env.key("keys"), field(document.type, document.key)
        text = yield from unit.field(keys, name)
        seq, _, ends = (text or b"0 ").decode().partition(" ")
        if int(seq) == kept.seq:
            if ends and int(ends) > unit.now:
                return True
            unit.set_field(keys, name, None)
    return False


def _prune_lanes(env: Env) -> Plan[None]:
    """Forget lanes that have had no jobs for long."""
    unit = Unit(env)
    now = yield from unit.start()
    lanes, idle, counts = yield from unit.read(
        [b"HKEYS", env.key("lanes")],
        [b"HGETALL", env.key("idle")],
        [b"HKEYS", env.key("counts")],
    )
    used = {name.partition(b"\n")[2] for name in counts}
    since = dict(zip(idle[::2], idle[1::2], strict=True))
    for name in lanes:
        if name in used:
            if name in since:
                unit.do(b"HDEL", env.key("idle"), name)
        elif name not in since:
            unit.do(b"HSET", env.key("idle"), name, now)
        elif int(since[name]) <= now - seconds_to_us(LANE_IDLE):
            yield from unit.field(env.key("lanes"), name)
            unit.set_field(env.key("lanes"), name, None)
            for number in ENDED:
                unit.do(b"HDEL", env.key("pruned"), b"%d\n%s" % (int(number), name))
            unit.do(b"HDEL", env.key("idle"), name)
    yield from unit.commit()


def tidy(env: Env) -> Plan[None]:
    """Do nothing: Redis needs no tidying."""
    yield from ()
