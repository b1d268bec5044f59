"""New jobs that a running job spawns under its lease, and the jobs that gather them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.flows.dependencies import check_breadth
from fencepost.core.flows.dependents import gather
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Decision
from fencepost.store.interface.queue import LeaseLost, Moved, Spawn, Spawned, SpawnReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import end_waiting
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import accept, as_parent
from fencepost.store.redis.jobs.lease import leased, with_states
from fencepost.store.redis.jobs.rows import decode_waits, encode_waits


def spawn(env: Env, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what running jobs spawn, each under a valid lease, or raise DependencyError."""
    unit = Unit(env)
    replies: list[SpawnReply] = []
    for each, kept in (yield from leased(unit, spawns)):
        if kept is None:
            replies.append(LeaseLost(each.job_id))
            continue
        new = [replace(job, flow=kept.document.flow) for job in each.jobs]
        placed = yield from accept(unit, new, atomic=True)
        followed = yield from gather_spawned(unit, kept, [each.kept for each in placed])
        answers = tuple(each.reply for each in placed)
        replies.append(Spawned(each.job_id.lower(), answers, followed))
    replies = yield from with_states(unit, replies)
    yield from unit.commit()
    return replies


def gather_spawned(unit: Unit, parent: Kept, spawned: Sequence[Kept]) -> Plan[tuple[Moved, ...]]:
    """Make jobs that gather the children of *parent* wait for *spawned*; return their moves."""
    # Also if none gathers now: one that comes meanwhile has to see what was spawned.
    parent.document.children += 1 if parent.document.children else 0
    (seqs,) = yield from unit.children([parent])
    children = yield from unit.jobs(seqs)
    gathering: dict[int, Kept] = {}
    decisions: dict[int, Decision | None] = {}
    for seq in sorted(children):
        kept = children[seq]
        waits = kept.document.waits
        if kept.state is not State.PENDING or waits is None or not waits[1] or not waits[3]:
            continue
        behind = yield from _behind(unit, kept, spawned)
        known = {seq, *(kept.document.parents or ())}
        fresh = [each for each in spawned if each.seq not in known and each.seq not in behind]
        more = list({each.seq: each for each in fresh}.values())
        check_breadth(len(kept.document.parents or ()) + len(more))
        if not more:
            continue
        asked = decode_waits(waits, is_pending=True)
        entry = gather(asked, kept.priority, [as_parent(each) for each in more])
        unit.link(kept, more)
        kept.document.waits = encode_waits(entry.waits)
        kept.document.priority = int(entry.priority)
        if entry.decision is not None or not entry.waits.missing:
            gathering[seq] = kept
            decisions[seq] = entry.decision
    if not decisions:
        return ()
    return (yield from end_waiting(unit, gathering, decisions))


def _behind(unit: Unit, gatherer: Kept, spawned: Sequence[Kept]) -> Plan[set[int]]:
    """Return which of *spawned* wait for *gatherer*, directly or not (S1-65)."""
    found: set[int] = set()
    for each in spawned:
        if each.depth <= 1:
            continue
        seen: set[int] = set()
        level = [each.seq]
        while level:
            seen.update(level)
            if gatherer.seq in seen:
                found.add(each.seq)
                break
            jobs = yield from unit.jobs(level)
            parents = {seq for kept in jobs.values() for seq in kept.document.parents or ()}
            level = sorted(parents - seen)
    return found
