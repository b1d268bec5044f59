"""A fresh job in the place of a dead letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.ids import id_text
from fencepost.core.instants import seconds_to_us
from fencepost.core.lifecycle import Event, State, advance
from fencepost.core.policy import DEFAULT_POLICY
from fencepost.store.plan import Plan, Statement
from fencepost.store.replies import Conflict, Duplicate, NotFound, Replayed, ReplayReply
from fencepost.store.sqlite.admission import admit
from fencepost.store.sqlite.catalog import Env, Tally
from fencepost.store.sqlite.control import each, one
from fencepost.store.sqlite.enqueueing import find_holder, take_key, write_tags
from fencepost.store.sqlite.parents import PRIORITIES, judge_parents, link, parents_of
from fencepost.store.sqlite.submission import (
    INSERT_FRESH,
    entry_behind,
    held_up,
    state_of,
    waiting_columns,
)
from fencepost.store.states import MODES, NUMBER
from fencepost.store.texts import readable_tags

FIND_DEAD = """
select seq, id, lane, policy, priority, key, key_window, correlation_id, tags, flow, node, mode,
       gathers, slot, payload_encoding, payload
from jobs where id = ? and is_dead_letter = 1
"""
RECORD_SUCCESSOR = "update jobs set is_dead_letter = null where seq = ?"


class Dead(NamedTuple):
    """The row of a dead letter, as far as a fresh job is made of it."""

    seq: int
    id: bytes
    lane: int
    policy: int
    priority: int
    key: str | None
    key_window: int | None
    correlation_id: str | None
    tags: str | None
    flow: str | None
    node: str | None
    mode: int | None
    gathers: int | None
    slot: int | None
    payload_encoding: int
    payload: bytes


def replay(env: Env, job_ids: Sequence[str]) -> Plan[list[ReplayReply]]:
    """Put a fresh job in the place of each dead letter, both or neither (S3-27)."""
    return (yield from each(job_ids, lambda job_id: _replay(env, job_id)))


def _replay(env: Env, job_id: str) -> Plan[ReplayReply]:
    now = env.clock.now_us()
    row = yield from one(FIND_DEAD, job_id)
    if row is None:
        return NotFound(job_id)
    dead = Dead(*row)
    type_ = (yield from env.catalog.lanes([dead.lane]))[dead.lane].type
    _, culprit = yield from judge_parents(dead.seq, dead.mode)
    if culprit is not None:
        return Conflict(job_id, culprit.state, culprit.job_id)
    if dead.key is not None:
        holder = yield from find_holder(type_, dead.key, now)
        if holder is not None and holder.seq != dead.seq:
            return Duplicate(holder.job_id, type_, dead.key, holder.state, is_rejected=True)
    fresh, seq, state = yield from _insert(env, dead, now)
    if dead.key is not None:
        yield from take_key(type_, dead.key, seq, dead.key_window, now)
    yield from write_tags(seq, readable_tags(dead.tags))
    yield Statement(RECORD_SUCCESSOR, (dead.seq,))
    tally = Tally()
    tally.move(dead.lane, None, state)
    if dead.slot is not None and (yield from admit(env, (seq,), now, tally)):
        state = advance(state, Event.READY)
    yield from tally.write()
    return Replayed(id_text(dead.id), id_text(fresh), type_, state)


def _insert(env: Env, dead: Dead, now: int) -> Plan[tuple[bytes, int, State]]:
    """Store the fresh job behind what the dead one waited for; return its id, row and state."""
    parents = yield from parents_of(dead.seq)
    state, entry = advance(State.PENDING, Event.READY), None
    if dead.mode is not None and parents:
        mode, priority = MODES[dead.mode], PRIORITIES[dead.priority]
        entry = entry_behind(mode, priority, parents, gathers=bool(dead.gathers))
        state = state_of(entry, state)
    state = held_up(state, dead.slot)
    fresh = env.clock.new_id()
    policies = yield from env.catalog.policies([dead.policy])
    policy = policies.get(dead.policy, DEFAULT_POLICY)
    row = (
        fresh, dead.lane, dead.policy, dead.priority if entry is None else int(entry.priority),
        NUMBER[state], policy.max_attempts, now, now, now,
        now if state is State.SCHEDULED else None, now + seconds_to_us(policy.lifetime), dead.key,
        dead.key_window, dead.correlation_id, dead.tags, dead.id, dead.payload_encoding,
        dead.payload, dead.flow, dead.node, *waiting_columns(entry, now, slot=dead.slot),
    )  # fmt: skip
    ((seq,),) = yield Statement(INSERT_FRESH, row)
    yield from link([(seq, place, parent.seq) for place, parent in enumerate(parents)])
    return fresh, seq, state
