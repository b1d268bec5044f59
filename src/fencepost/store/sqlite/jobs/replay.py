"""A fresh job in the place of a dead letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.control import Replay, Replayed, ReplayReply, Sealed, as_replay
from fencepost.store.interface.replies import Conflict, Duplicate, NotFound
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import ENCODING_NUMBER, ENCRYPTED, NUMBER
from fencepost.store.sql.texts import readable_tags
from fencepost.store.sqlite.flows.enqueue import INSERT_FRESH, held_up
from fencepost.store.sqlite.flows.parents import judge_parents, link, parents_of
from fencepost.store.sqlite.jobs.catalog import Env, Tally
from fencepost.store.sqlite.jobs.edit import each, one
from fencepost.store.sqlite.jobs.enqueue import find_holder, take_key, write_tags
from fencepost.store.sqlite.limits.concurrency import admit

FIND_DEAD = """
select seq, id, lane, policy, priority, key, key_window, correlation_id, tags, flow, node,
  callback_url, mode, depth, gathers, own_priority, slot, submitter, payload_encoding, payload
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
    callback_url: str | None
    mode: int | None
    depth: int | None
    gathers: int | None
    own_priority: int | None
    slot: int | None
    submitter: str | None
    payload_encoding: int
    payload: bytes


def replay(env: Env, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Put a fresh job in the place of each dead letter, both or neither (S3-27)."""
    return (yield from each(requests, lambda request: _replay(env, as_replay(request))))


def _replay(env: Env, request: Replay) -> Plan[ReplayReply]:
    now = env.clock.now_us()
    row = yield from one(FIND_DEAD, request.job_id)
    if row is None:
        return NotFound(request.job_id)
    dead = Dead(*row)
    if request.payload is not None:
        encoding = ENCODING_NUMBER[request.payload.encoding]
        dead = dead._replace(payload_encoding=encoding, payload=request.payload.data)
    elif dead.payload_encoding == ENCRYPTED:
        return Sealed(id_text(dead.id))
    if request.callback_url is not None:
        dead = dead._replace(callback_url=request.callback_url)
    type_ = (yield from env.catalog.lanes([dead.lane]))[dead.lane].type
    missing, culprit = yield from judge_parents(dead.seq, dead.mode)
    if culprit is not None:
        return Conflict(id_text(dead.id), culprit.state, culprit.job_id)
    if dead.key is not None:
        holder = yield from find_holder(type_, dead.key, now)
        if holder is not None and holder.seq != dead.seq:
            return Duplicate(holder.job_id, type_, dead.key, holder.state, is_rejected=True)
    fresh = request.id or env.clock.new_id()
    seq, state = yield from _insert(env, dead, fresh, missing, now)
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


def _insert(env: Env, dead: Dead, fresh: bytes, missing: int, now: int) -> Plan[tuple[int, State]]:
    """Store the fresh job behind what the dead one waited for; return its row and state."""
    parents = yield from parents_of(dead.seq)
    ready = State.PENDING if missing else advance(State.PENDING, Event.READY)
    state = held_up(ready, dead.slot)
    counted = None if dead.mode is None and dead.slot is None else missing
    policies = yield from env.catalog.policies([dead.policy])
    policy = policies.get(dead.policy, DEFAULT_POLICY)
    row = (
        fresh, dead.lane, dead.policy, dead.priority, NUMBER[state], policy.max_attempts, now, now,
        now,
        now if state is State.SCHEDULED else None, now + seconds_to_us(policy.lifetime), dead.key,
        dead.key_window, dead.correlation_id, dead.tags, dead.id, dead.submitter,
        dead.payload_encoding, dead.payload, dead.flow, dead.node, dead.callback_url, dead.mode,
        counted, dead.depth, dead.gathers, dead.own_priority, None, None, None, dead.slot,
    )  # fmt: skip
    ((seq,),) = yield Statement(INSERT_FRESH, row)
    yield from link([(seq, place, parent.seq) for place, parent in enumerate(parents)])
    return seq, state
