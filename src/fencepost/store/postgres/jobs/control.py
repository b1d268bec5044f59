"""What operators do: cancel, retry, replay, discard.

Before a terminal job is changed, its row of ``done`` is locked; before a live job is described
again, its row of ``submissions``. Only then it is read, and cannot change any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from fencepost.core.flows.dependencies import Mode
from fencepost.core.flows.dependents import Parent
from fencepost.core.job.lifecycle import State, reopened
from fencepost.core.job.outcome import cancelled
from fencepost.core.values.names import id_text, wanted_ids
from fencepost.core.values.times import from_us, seconds_to_us
from fencepost.errors import IllegalTransition
from fencepost.store.interface.control import (
    CancelReply,
    Conflict,
    Discarded,
    DiscardReply,
    NotFound,
    Replay,
    Replayed,
    ReplayReply,
    RetryReply,
    RetryRequest,
    Sealed,
    TooLate,
    as_replay,
)
from fencepost.store.interface.queue import Duplicate, Moved, with_admitted
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.flows.dependents import end, hold_of
from fencepost.store.postgres.jobs.catalog import Env, now_us
from fencepost.store.postgres.jobs.edit import (
    hasten,
    lane_at,
    lock,
    set_by_hand,
    states_of,
)
from fencepost.store.postgres.jobs.finish import (
    DETACH_AWAITED,
    DETACH_DONE,
    attach,
    detached,
    placed,
)
from fencepost.store.postgres.jobs.rows import CODEC, hex_fields
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit
from fencepost.store.sql.codec import BY_NUMBER, ENCRYPTED, MODE_NUMBER, NUMBER, encode_failure
from fencepost.store.sql.control import each, each_found, one, policy_of
from fencepost.store.sql.endings import Ending, judge_parents, moved

CANCEL = "select ended, rest from fencepost.cancel(%s, %s::uuid[], %s::smallint, %s)"
LOCK_ENDED = "select fencepost.lock_ended(%s)"
FIND_TERMINAL = """
select j.seq, j.lane, j.policy, j.key, j.key_window, j.mode, done.state, done.attempt,
  k.slot is not null
from fencepost.submissions j join fencepost.done on done.seq = j.seq
left join fencepost.keyed_jobs k on k.seq = j.seq
where j.id = %s::uuid for update of done
"""
TAKE_KEY = """
select fencepost.take_key(
  coalesce(%s::timestamptz, clock_timestamp()), %s::text, %s::text, %s::bigint, %s::bigint)
"""
HOLDER = """
select (holder ->> 0)::integer, holder ->> 1
from fencepost.holder(%s::text, %s::text) as holder
"""
REOPEN = """
with given as (select coalesce(%s::timestamptz, clock_timestamp()) as now)
update fencepost.submissions
set lane = %s, max_attempts = %s, reopened_version = %s,
  run_at = now + %s::bigint * interval '1 microsecond',
  expires_at = now + %s::bigint * interval '1 microsecond'
from given where seq = %s
"""
# Dependents that had counted it as ended wait for it again.
HOLD_UP_AGAIN = """
update fencepost.pending set missing = missing + 1 where seq = any (array(
  select seq from fencepost.pending where mode = %s and slot is null and seq = any (array(
    select child from fencepost.dependencies where parent = %s))
  order by seq for update))
"""
FIND_DEAD = """
select j.seq, j.id::text, j.lane, j.policy, j.key, j.payload_encoding, j.mode, k.slot
from fencepost.submissions j join fencepost.done on done.seq = j.seq
left join fencepost.keyed_jobs k on k.seq = j.seq
where j.id = %s::uuid and done.is_dead_letter for update of done
"""
# The new job takes over the key of the dead one.
RELEASE_KEY = """
update fencepost.idempotency set key_ends_at = null where type = %s and key = %s and seq = %s
"""
# The payload stays on the server, unless it is replaced.
ENQUEUE_COPY = """
select (reply -> 0 ->> 0)::integer, reply -> 0 ->> 1
from (select %s::smallint as payload_encoding, %s::text as payload, %s::text as payload_hex,
  %s::text as callback_url) as given,
lateral (
  select fencepost.enqueue_each(%s::timestamptz, json_build_array(json_build_object(
    'id', %s::uuid, 'lane', j.lane, 'type', lanes.type, 'policy', j.policy,
    'max_attempts', %s::integer, 'delay', 0, 'lifetime', %s::bigint, 'key', j.key,
    'key_window', j.key_window, 'correlation_id', j.correlation_id, 'tags', j.tags,
    'replay_of', j.id, 'payload_encoding', coalesce(given.payload_encoding, j.payload_encoding),
    'payload', case when given.payload_encoding is null then j.payload else given.payload end,
    'payload_hex', case when given.payload_encoding is null then encode(j.payload_bytes, 'hex')
      else given.payload_hex end, 'flow', j.flow, 'node', j.node,
    'mode', j.mode, 'depth', j.depth, 'gathers', j.gathers,
    'own_priority', j.own_priority, 'missing', %s::integer,
    'callback_url', coalesce(given.callback_url, j.callback_url), 'callback', (
      select json_build_array(c.lane, c.policy, c.max_attempts, c.lifetime)
      from fencepost.callbacks c where c.seq = j.seq),
    'slot', k.slot, 'concurrency_key', k.concurrency_key, 'max_running', k.max_running,
    'submitter', j.submitter
  )), false) as reply
  from fencepost.submissions j join fencepost.lanes on lanes.lane = j.lane
  left join fencepost.keyed_jobs k on k.seq = j.seq where j.seq = %s
) as copy
"""
COPY_DEPENDENCIES = """
insert into fencepost.dependencies(parent, child, place)
select dependencies.parent, submissions.seq, dependencies.place
from fencepost.dependencies, fencepost.submissions
where dependencies.child = %s and submissions.id = %s::uuid
"""
RECORD_SUCCESSOR = "update fencepost.done set is_dead_letter = null where seq = %s"
_ended = msgspec.json.Decoder(list[tuple[str, int, int]])
_others = msgspec.json.Decoder(list[tuple[str, int]])

DISCARD = """
with dead as (
  select done.seq, j.id from fencepost.submissions j join fencepost.done on done.seq = j.seq
  where j.id = any (%s::uuid[]) and done.is_dead_letter order by done.seq for update of done
)
update fencepost.done set is_dead_letter = null from dead
where done.seq = dead.seq returning dead.id::text
"""


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20).

    The server ends by itself those that nothing follows, which are nearly all of many.
    """
    wanted = list(wanted_ids(job_ids).values())
    if not wanted:
        return [NotFound(job_id) for job_id in job_ids]
    decision = cancelled(State.SCHEDULED)
    params = (env.now, wanted, NUMBER[decision.state], encode_failure(decision.failure))
    ((ended, rest),) = yield Statement(CANCEL, params)
    moves = yield from _moves(env, [] if ended is None else _ended.decode(ended), decision.state)
    states: dict[str, State] = dict.fromkeys(moves, decision.state)
    followed: tuple[Moved, ...] = ()
    if rest is not None:
        others = dict(_others.decode(rest))
        jobs = detached((yield Statement(DETACH_AWAITED, (sorted(others.values()),))))
        known = yield from states_of(set(others.values()) - {job.seq for job in jobs})
        states |= {id_: known[seq] for id_, seq in others.items() if seq in known}
        endings = [Ending(job, cancelled(job.state)) for job in jobs]
        followed = yield from end(env, endings)
        for move in (yield from moved(env, endings)):
            moves[move.job_id], states[move.job_id] = move, move.state
    replies: list[CancelReply] = []
    for job_id in job_ids:
        id_ = job_id.lower()
        if id_ in moves:
            move = moves.pop(id_)
            replies.append(replace(move, followed=followed) if followed else move)
            followed = ()
        elif id_ in states:
            replies.append(Conflict(job_id, states[id_]))
        else:
            replies.append(NotFound(job_id))
    return replies


def _moves(env: Env, ended: Sequence[tuple[str, int, int]], state: State) -> Plan[dict[str, Moved]]:
    """Return what the server has moved to *state*, by id."""
    lanes = yield from env.catalog.lanes({lane for _, lane, _ in ended})
    return {id_: Moved(id_, lanes[lane].type, state, BY_NUMBER[was]) for id_, lane, was in ended}


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again: the same job, if it had ended its key taken back first (S3-17, C45)."""
    yield from lock(LOCK_ENDED, [request.job_id for request in requests])
    return (yield from each(requests, lambda request: _retry(env, request)))


def _retry(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    row = yield from one(CODEC, FIND_TERMINAL, request.job_id)
    if row is None:  # live, or unknown
        reply = yield from hasten(env, request)
        if not isinstance(reply, Conflict) or not reply.state.is_terminal:
            return reply
        row = yield from one(CODEC, FIND_TERMINAL, request.job_id)  # it has ended meanwhile
        if row is None:
            return reply
    seq, lane, policy_number, key, key_window, mode, number, attempt, is_keyed = row
    try:
        state = reopened(BY_NUMBER[number], is_later=request.delay > 0)
    except IllegalTransition:
        return Conflict(request.job_id, BY_NUMBER[number])
    policy = yield from policy_of(env, policy_number)
    lifetime = seconds_to_us(policy.lifetime)
    if seconds_to_us(request.delay) >= lifetime:
        return TooLate(request.job_id, from_us((yield from now_us(env)) + lifetime))
    missing, failed = yield from _waits(seq, mode)
    if failed is not None:
        return Conflict(request.job_id.lower(), failed.state, failed.job_id)
    if missing or (is_keyed and state is State.SCHEDULED):
        state = reopened(BY_NUMBER[number], is_waiting=True)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    if key is not None:
        # While the job is still terminal to other transactions: they may take the key before us, or
        # find it held after us.
        params = (env.now, type_, key, seq, key_window)
        ((is_taken,),) = yield Statement(TAKE_KEY, params)
        if not is_taken:
            ((holder_state, holder_id),) = yield Statement(HOLDER, (type_, key))
            return Duplicate(holder_id, type_, key, BY_NUMBER[holder_state], is_rejected=True)
    max_attempts = policy.max_attempts if request.reset_attempts else attempt + 1
    freed = yield from _reopen(
        env, request, seq=seq, state=state, max_attempts=max_attempts, lifetime=policy.lifetime,
        waits={"mode": mode, "missing": missing} if missing else {},
    )  # fmt: skip
    yield Statement(HOLD_UP_AGAIN, (MODE_NUMBER[Mode.ENDED], seq))
    if request.priority is not None:
        yield from set_by_hand(env, seq, (yield from lane_at(env, lane, request.priority)))
    moved = Moved(request.job_id.lower(), type_, state, BY_NUMBER[number])
    return with_admitted([moved], (yield from admit(env, freed)))[0]


def _waits(seq: int, mode: int | None) -> Plan[tuple[int, Parent | None]]:
    """Return how many jobs a job would wait for now, or the one that would end it at once."""
    return judge_parents(mode, [] if mode is None else (yield from hold_of(seq)))


def _reopen(
    env: Env,
    request: RetryRequest,
    *,
    seq: int,
    state: State,
    max_attempts: int,
    lifetime: float,
    waits: dict[str, Any],
) -> Plan[FreedSlots]:
    """Move a job whose row of done is locked back into line; return the slots to admit to."""
    (job,) = detached((yield Statement(DETACH_DONE, (seq,))))
    lane = yield from lane_at(env, job.lane, request.priority)
    delay = seconds_to_us(request.delay)
    params = (env.now, lane, max_attempts, job.lease_version, delay, seconds_to_us(lifetime), seq)
    yield Statement(REOPEN, params)
    fields = {
        **placed(job, state),
        "lane": lane,
        "attempt": 0 if request.reset_attempts else job.attempt,
        "delay": delay,
        "expires_at": None,  # the requested delay is not cut short
        "is_in_line": state is State.SCHEDULED,
        **waits,
    }
    freed = FreedSlots()
    freed.add((yield from attach(env, [fields])))
    return freed


def replay(env: Env, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Replace each dead letter by a new job, both or neither (S3-27)."""
    given = [as_replay(request) for request in requests]
    yield from lock(LOCK_ENDED, [request.job_id for request in given])
    return (yield from each_found(CODEC, FIND_DEAD, given, partial(_replay, env)))


def _replay(env: Env, request: Replay, row: Row) -> Plan[ReplayReply]:
    seq, dead_id, lane, policy_number, key, encoding, mode, slot = row
    if request.payload is None and encoding == ENCRYPTED:
        return Sealed(dead_id)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    missing, failed = yield from _waits(seq, mode)
    if failed is not None:
        return Conflict(dead_id, failed.state, failed.job_id)
    policy = yield from policy_of(env, policy_number)
    if key is not None:
        yield Statement(RELEASE_KEY, (type_, key, seq))
    fresh = id_text(request.id or env.clock.new_id())
    lifetime = seconds_to_us(policy.lifetime)
    settings = (env.now, fresh, policy.max_attempts, lifetime, missing, seq)
    params = (*hex_fields(request.payload), request.callback_url, *settings)
    ((number, holder),) = yield Statement(ENQUEUE_COPY, params)
    if holder is not None:
        assert key is not None
        return Duplicate(holder, type_, key, BY_NUMBER[number], is_rejected=True)
    if mode is not None:
        yield Statement(COPY_DEPENDENCIES, (seq, fresh))
    yield Statement(RECORD_SUCCESSOR, (seq,))
    admitted = yield from admit(env, {} if slot is None else {slot: 0})
    is_in = any(moved.job_id == fresh for moved in admitted)
    state = State.SCHEDULED if is_in else BY_NUMBER[number]
    return Replayed(dead_id, fresh, type_, state)


def discard(env: Env, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
    """Take dead letters off the list."""
    wanted = list(wanted_ids(job_ids).values())
    discarded: set[str] = set()
    if wanted:
        discarded = {row[0] for row in (yield Statement(DISCARD, (wanted,), alone=True))}
    replies: list[DiscardReply] = []
    for job_id in job_ids:
        id_ = job_id.lower()
        replies.append(Discarded(id_) if id_ in discarded else NotFound(job_id))
        discarded.discard(id_)
    return replies
