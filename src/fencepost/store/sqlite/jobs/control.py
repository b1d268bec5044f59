"""What operators do with jobs: cancel, retry, replay and discard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.lifecycle import State, first_state, reopened
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
from fencepost.store.sql.codec import (
    BY_NUMBER,
    ENCODING_NUMBER,
    ENCRYPTED,
    MODE_NUMBER,
    NUMBER,
    PENDING,
    readable_tags,
)
from fencepost.store.sql.control import each_found, one, policy_of
from fencepost.store.sql.endings import Ending, judge_parents, moved
from fencepost.store.sqlite.flows.dependents import end_all, link, parents_of
from fencepost.store.sqlite.flows.enqueue import INSERT_FRESH, held_back
from fencepost.store.sqlite.jobs.catalog import Env, JobCounters
from fencepost.store.sqlite.jobs.edit import hasten, set_priority
from fencepost.store.sqlite.jobs.enqueue import find_holder, take_key, write_tags
from fencepost.store.sqlite.jobs.finish import LIVE_COLUMNS, LiveEnding, live_row
from fencepost.store.sqlite.jobs.rows import CODEC, values
from fencepost.store.sqlite.limits.concurrency import admit

FIND = f"select {LIVE_COLUMNS} from jobs where id in ({{values}})"
FIND_TERMINAL = """
select seq, lane, policy, state, attempt, key, key_window, mode, slot
from jobs where id = ?
"""
REOPEN = """
update jobs
set state = ?, missing = ?, run_at = ?, scheduled_at = coalesce(?, scheduled_at), updated_at = ?,
    attempt = ?, max_attempts = ?, expires_at = ?, completed_at = null,
    failure = null, result = null, result_encoding = null, is_dead_letter = null, worker = null
where seq = ?
"""
# Jobs that wait until all have ended had counted the reopened job as ended.
COUNT_UP = f"""
update jobs
set missing = missing + (select count(*) from dependencies where child = jobs.seq and parent = ?)
where state = {PENDING} and missing > 0 and mode = {MODE_NUMBER[Mode.ENDED]}
  and seq in (select child from dependencies where parent = ?)
"""
DISCARD = "update jobs set is_dead_letter = null where id = ? and is_dead_letter = 1 returning seq"


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20)."""
    now = env.clock.now_us()
    wanted = wanted_ids(job_ids)
    jobs = {}
    for sql, params in values(FIND, [(id_,) for id_ in wanted]):
        for row in (yield Statement(sql, params)):
            jobs[wanted[row[1]]] = live_row(row)
    endings: dict[str, LiveEnding] = {}
    replies: list[CancelReply] = []
    for job_id in job_ids:
        job = jobs.get(job_id.lower())
        if job is None:
            replies.append(NotFound(job_id))
        elif job.state.is_terminal or job.job_id in endings:
            replies.append(
                Conflict(job_id, State.CANCELLED if job.job_id in endings else job.state)
            )
        else:
            decision = cancelled(job.state)
            endings[job.job_id] = Ending(job, decision)
            replies.append(Moved(job.job_id, "", decision.state, job.state))  # replaced below
    counters = JobCounters()
    ended = list(endings.values())
    followed = yield from end_all(env, ended, now, counters)
    yield from counters.write()
    moves = iter((yield from moved(env, ended, followed)))
    return [next(moves) if isinstance(reply, Moved) else reply for reply in replies]


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again; one that had ended takes its key back first (S3-17, C45)."""
    plan_of = partial(_retry, env)
    return (yield from each_found(CODEC, FIND_TERMINAL, requests, plan_of))


def _retry(env: Env, request: RetryRequest, row: Row) -> Plan[RetryReply]:
    now = env.clock.now_us()
    seq, lane, policy_number, number, attempt, key, key_window, mode, slot = row
    was = BY_NUMBER[number]
    if not was.is_terminal:
        return (yield from hasten(env, request, now))
    try:
        state = reopened(was, is_later=request.delay > 0)
    except IllegalTransition:
        return Conflict(request.job_id, was)
    policy = yield from policy_of(env, policy_number)
    ends = now + seconds_to_us(policy.lifetime)
    if now + seconds_to_us(request.delay) >= ends:
        return TooLate(request.job_id, from_us(ends))
    parents = [] if mode is None else (yield from parents_of(seq))
    missing, failed = judge_parents(mode, [each.parent for each in parents])
    if failed is not None:
        return Conflict(request.job_id, failed.state, failed.job_id)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    if key is not None:
        holder = yield from find_holder(type_, key, now)
        if holder is not None and holder.seq != seq:
            return Duplicate(holder.job_id, type_, key, holder.state, is_rejected=True)
    if missing or (slot is not None and state is State.SCHEDULED):
        state = reopened(was, is_waiting=True)
    if key is not None:
        yield from take_key(type_, key, seq, key_window, now)
    yield Statement(
        REOPEN,
        (
            NUMBER[state],
            None if mode is None and slot is None else missing,
            now + seconds_to_us(request.delay),
            now if state is State.SCHEDULED else None,
            now,
            0 if request.reset_attempts else attempt,
            policy.max_attempts if request.reset_attempts else attempt + 1,
            ends,
            seq,
        ),
    )
    if request.priority is not None:
        yield from set_priority(seq, request.priority)
    yield Statement(COUNT_UP, (seq, seq))
    counters = JobCounters()
    counters.move(lane, was, state)
    admitted = yield from admit(env, () if slot is None else (seq,), now, counters)
    yield from counters.write()
    return with_admitted([Moved(request.job_id.lower(), type_, state, was)], admitted)[0]


def discard(env: Env, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
    """Take dead letters off the list."""
    replies: list[DiscardReply] = []
    for job_id in job_ids:
        row = yield from one(CODEC, DISCARD, job_id)
        replies.append(NotFound(job_id) if row is None else Discarded(job_id.lower()))
    return replies


FIND_DEAD = """
select seq, id, lane, policy, priority, key, key_window, correlation_id, tags, flow, node,
  callback_url, mode, depth, gathers, own_priority, slot, submitter, payload_encoding, payload
from jobs where id = ? and is_dead_letter = 1
"""
RECORD_SUCCESSOR = "update jobs set is_dead_letter = null where seq = ?"


class Dead(NamedTuple):
    """The columns of a dead letter that a fresh job is made of."""

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
    """Replace each dead letter by a fresh job, both or neither (S3-27)."""
    given = map(as_replay, requests)
    return (yield from each_found(CODEC, FIND_DEAD, given, partial(_replay, env)))


def _replay(env: Env, request: Replay, row: Row) -> Plan[ReplayReply]:
    now = env.clock.now_us()
    dead = Dead(*row)
    if request.payload is not None:
        encoding = ENCODING_NUMBER[request.payload.encoding]
        dead = dead._replace(payload_encoding=encoding, payload=request.payload.data)
    elif dead.payload_encoding == ENCRYPTED:
        return Sealed(id_text(dead.id))
    if request.callback_url is not None:
        dead = dead._replace(callback_url=request.callback_url)
    type_ = (yield from env.catalog.lanes([dead.lane]))[dead.lane].type
    parents = yield from parents_of(dead.seq)
    missing, failed = judge_parents(dead.mode, [each.parent for each in parents])
    if failed is not None:
        return Conflict(id_text(dead.id), failed.state, failed.job_id)
    if dead.key is not None:
        holder = yield from find_holder(type_, dead.key, now)
        if holder is not None and holder.seq != dead.seq:
            return Duplicate(holder.job_id, type_, dead.key, holder.state, is_rejected=True)
    fresh = request.id or env.clock.new_id()
    seq, state = yield from _insert(env, dead, fresh, missing, now)
    yield from link([(seq, place, parent.seq) for place, parent in enumerate(parents)])
    if dead.key is not None:
        yield from take_key(type_, dead.key, seq, dead.key_window, now)
    yield from write_tags(seq, readable_tags(dead.tags))
    yield Statement(RECORD_SUCCESSOR, (dead.seq,))
    counters = JobCounters()
    counters.move(dead.lane, None, state)
    if dead.slot is not None and (yield from admit(env, (seq,), now, counters)):
        state = first_state(is_due=True)
    yield from counters.write()
    return Replayed(id_text(dead.id), id_text(fresh), type_, state)


def _insert(env: Env, dead: Dead, fresh: bytes, missing: int, now: int) -> Plan[tuple[int, State]]:
    """Store the fresh job; return its row and state."""
    ready = State.PENDING if missing else first_state(is_due=True)
    state = held_back(ready, dead.slot)
    counted = None if dead.mode is None and dead.slot is None else missing
    policy = yield from policy_of(env, dead.policy)
    row = (
        fresh, dead.lane, dead.policy, dead.priority, NUMBER[state], policy.max_attempts, now, now,
        now,
        now if state is State.SCHEDULED else None, now + seconds_to_us(policy.lifetime), dead.key,
        dead.key_window, dead.correlation_id, dead.tags, dead.id, dead.submitter,
        dead.payload_encoding, dead.payload, dead.flow, dead.node, dead.callback_url, dead.mode,
        counted, dead.depth, dead.gathers, dead.own_priority, None, None, None, dead.slot,
    )  # fmt: skip
    ((seq,),) = yield Statement(INSERT_FRESH, row)
    return seq, state
