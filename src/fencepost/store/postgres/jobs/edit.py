"""Changes of a job that waits: edits, and when it is due.

The row of ``submissions`` is locked first, which serializes edits of one job; then the row of the
table in which it waits, which keeps claims, promotions and settlements from moving it. A ready job
gets a new row, even if only its payload changes: a claim that began before the edit is committed
must skip it, and not return the old payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.job.lifecycle import HASTENED, WAITING, State, rescheduled
from fencepost.core.job.policy import Priority, encode_policy
from fencepost.core.values.names import wanted_ids
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.control import (
    Conflict,
    Edit,
    Edited,
    EditReply,
    NotFound,
    RetryReply,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Moved, with_admitted
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.flows.dependents import pass_on_priority
from fencepost.store.postgres.flows.enqueue import DELIVERY
from fencepost.store.postgres.jobs.catalog import Env, now_us
from fencepost.store.postgres.jobs.finish import DETACH, attach, detached, placed
from fencepost.store.postgres.jobs.read import READER
from fencepost.store.postgres.jobs.rows import CODEC, body_fields
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit
from fencepost.store.sql.codec import BY_NUMBER, NUMBER, PENDING, SCHEDULED, encode_json
from fencepost.store.sql.control import each_found, one, policy_of

FIND = """
select j.seq, j.lane, j.policy, (extract(epoch from j.expires_at) * 1000000)::bigint,
  exists (select 1 from fencepost.keyed_jobs k where k.seq = j.seq)
from fencepost.submissions j where id = %s::uuid for no key update
"""
LOCK_JOBS = """
select 1 from fencepost.submissions where id = any (%s::uuid[]) order by seq for no key update
"""
STATES = "select seq, state from fencepost.jobs where seq = any (%s::bigint[])"
HOLD_MARKS = "select fencepost.hold_marks()"
# Each returns whether only a concurrency key blocks the job.
HOLD_PENDING = "select slot is not null from fencepost.pending where seq = %s for update"
HOLD_DELAYED = "select false from fencepost.delayed where seq = %s and state = %s for update"
# A job that was ready when it was submitted is found by its lane, the others by scheduled_at.
HOLD_READY = """
select false from fencepost.ready where ctid = any (array(
  select ready.ctid from fencepost.submissions j join fencepost.ready
    on ready.lane = j.lane and ready.run_at = j.run_at and ready.seq = j.seq
  where j.seq = %s
  union all
  select ready.ctid from fencepost.ready where ready.seq = %s and ready.scheduled_at is not null
)) for update
"""
# From now on the row is found by its scheduled_at.
MOVE_READY = f"""
with given as (
  select %s::bigint as seq, %s::integer as lane
), gone as (
  delete from fencepost.ready where ctid = any (array(
    select ready.ctid from given join fencepost.submissions j on j.seq = given.seq
    join fencepost.ready
      on ready.lane = j.lane and ready.run_at = j.run_at and ready.seq = j.seq
    union all
    select ready.ctid from given join fencepost.ready on ready.seq = given.seq
    where ready.scheduled_at is not null
  )) returning *
), moved as (
  insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, lease_version)
  select gone.run_at, gone.seq, coalesce(gone.scheduled_at, j.created_at), given.lane,
    gone.attempt, gone.lease_version
  from given, gone join fencepost.submissions j on j.seq = gone.seq
), lowered as (
  select fencepost.lower_mark(given.lane, gone.run_at) from given, gone
), counted as (
  insert into fencepost.counters(lane, state, count)
  select gone.lane, {SCHEDULED}, -1 from given, gone where gone.lane <> given.lane
  union all select given.lane, {SCHEDULED}, 1 from given, gone where gone.lane <> given.lane
)
select seq from gone where (select count(*) from lowered) > 0
"""
MOVE_WAITING = """
with given as (
  select %s::bigint as seq, %s::integer as lane
), was as (
  select x.seq, x.lane from given join fencepost.{table} x on x.seq = given.seq for update of x
), moved as (
  update fencepost.{table} x set lane = given.lane{more}
  from given, was where x.seq = was.seq
  returning x.seq, was.lane as was_lane, given.lane as lane, {state} as state
), counted as (
  insert into fencepost.counters(lane, state, count)
  select was_lane, state, -1 from moved union all select lane, state, 1 from moved
)
select seq from moved
"""
MOVE_DELAYED = MOVE_WAITING.format(table="delayed", more="", state="x.state")
MOVE_PENDING = MOVE_WAITING.format(
    table="pending",
    more=""", priority = case when x.slot is not null then (
    select lanes.priority from fencepost.lanes where lanes.lane = given.lane) end""",
    state=PENDING,
)
MOVE = {
    State.PENDING: MOVE_PENDING,
    State.SCHEDULED: MOVE_READY,
    State.DELAYED: MOVE_DELAYED,
    State.RETRYING: MOVE_DELAYED,
}
SET_LANE = "update fencepost.submissions set lane = %s where seq = %s"
SET_BY_HAND = "update fencepost.submissions set lane = %s, own_priority = null where seq = %s"
SET_TAGS = "update fencepost.submissions set tags = %s::jsonb where seq = %s"
SET_PAYLOAD = """
update fencepost.submissions set payload_encoding = %s, payload = %s, payload_bytes = %s
where seq = %s
"""
SET_CORRELATION = "update fencepost.submissions set correlation_id = %s where seq = %s"
SET_CALLBACK = "update fencepost.submissions set callback_url = %s where seq = %s"
FORGET_CALLBACK = "delete from fencepost.callbacks where seq = %s"
POLICY_NUMBER = "select fencepost.policy_number(%s, null, %s)"
ASK_BACK = """
insert into fencepost.callbacks(seq, lane, policy, max_attempts, lifetime)
values (%s, %s, %s, %s, %s)
"""
SET_DUE = {
    State.PENDING: "update fencepost.pending set run_at = %s where seq = %s",
    State.DELAYED: "update fencepost.delayed set run_at = %s where seq = %s",
    State.RETRYING: "update fencepost.delayed set run_at = %s where seq = %s",
}
RESET_ATTEMPTS = "update fencepost.delayed set attempt = 0 where seq = %s"
SET_MAX_ATTEMPTS = "update fencepost.submissions set max_attempts = %s where seq = %s"

LOOKS_MAX = 20
"""How often to look for a job that moves between the look and the lock."""


class Found(NamedTuple):
    """A job whose row of ``submissions`` is locked."""

    seq: int
    lane: int
    policy: int
    expires_at: int
    has_key: bool


class Held(NamedTuple):
    """Where a job is; if it waits, its row is locked."""

    state: State
    is_held: bool = False
    """Whether it waits only for a slot of its concurrency key."""


def states_of(seqs: Iterable[int]) -> Plan[dict[int, State]]:
    """Return the states of those jobs that exist and are in some table."""
    asked = list(seqs)
    rows = (yield Statement(STATES, (asked,))) if asked else []
    return {seq: BY_NUMBER[number] for seq, number in rows if number is not None}


def lock(sql: str, job_ids: Sequence[str]) -> Plan[None]:
    """Lock jobs in the order of their numbers, before each is read in the given order."""
    if wanted := list(wanted_ids(job_ids).values()):
        yield Statement(sql, (wanted,))


def edit(env: Env, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change tags at any time, all else while the job waits (S1-106, S1-107, C46)."""
    yield from lock(LOCK_JOBS, [item.job_id for item in edits])
    return (yield from each_found(CODEC, FIND, edits, partial(_edit, env)))


def _edit(env: Env, item: Edit, row: Row) -> Plan[EditReply]:
    job = Found(*row)
    moves: tuple[Moved, ...] = ()
    if item.is_for_waiting:
        moved = yield from _edit_waiting(env, item, job)
        if not isinstance(moved, Moved):
            return moved
        if moved.state is not moved.was:
            moves = (replace(moved, followed=()), *moved.followed)
    if item.tags is not None:
        yield Statement(SET_TAGS, (encode_json(item.tags) if item.tags else None, job.seq))
    (seen,) = yield from READER.get(env, [item.job_id])
    assert seen is not None
    return Edited(seen, moves)


def _edit_waiting(env: Env, item: Edit, job: Found) -> Plan[Moved | Conflict | TooLate]:
    held = yield from _hold(job.seq)
    if held.state not in WAITING:
        return Conflict(item.job_id, held.state)
    now = yield from now_us(env)
    due = None if item.run_at is None else to_us(item.run_at)
    if due is not None and max(due, now) >= job.expires_at:
        return TooLate(item.job_id, from_us(job.expires_at))
    yield from _set_content(env, job.seq, item)
    lane = yield from lane_at(env, job.lane, item.priority)
    moved = yield from _place(env, item.job_id, job, held, lane=lane, due=due, now=now)
    if item.priority is not None:
        yield from set_by_hand(env, job.seq, lane)
    return moved


def _set_content(env: Env, seq: int, item: Edit) -> Plan[None]:
    if item.payload is not None:
        yield Statement(SET_PAYLOAD, (*body_fields(item.payload), seq))
    if item.correlation_id is not None:
        yield Statement(SET_CORRELATION, (item.correlation_id or None, seq))
    if item.callback_url is not None:
        yield Statement(SET_CALLBACK, (item.callback_url or None, seq))
        yield Statement(FORGET_CALLBACK, (seq,))
        if item.callback_url:
            yield from _ask_back(env, seq)


def _ask_back(env: Env, seq: int) -> Plan[None]:
    """Have a webhook sent when a job ends, as a submission does; the numbers are not remembered."""
    lane = yield from env.catalog.lane_number(DELIVERY.queue, DELIVERY.type, DELIVERY.priority)
    policy = DELIVERY.policy
    ((number,),) = yield Statement(
        POLICY_NUMBER, (encode_policy(policy), seconds_to_us(policy.timeout))
    )
    lifetime = seconds_to_us(policy.lifetime)
    yield Statement(ASK_BACK, (seq, lane, number, policy.max_attempts, lifetime))


def set_by_hand(env: Env, seq: int, lane: int) -> Plan[None]:
    """Set a priority, and pass it on to dependents that inherit it."""
    yield Statement(SET_BY_HAND, (lane, seq))
    yield from pass_on_priority(env, seq)


def lane_at(env: Env, number: int, priority: Priority | None) -> Plan[int]:
    """Return the lane of the same queue and type at another priority."""
    if priority is None:
        return number
    lane = (yield from env.catalog.lanes([number]))[number]
    return (yield from env.catalog.lane_number(lane.queue, lane.type, priority))


def _hold(seq: int) -> Plan[Held]:
    """Lock a job where it waits, and return its state; one that does not wait is not locked."""
    yield Statement(HOLD_MARKS)
    for _ in range(LOOKS_MAX):
        state = (yield from states_of([seq]))[seq]
        rows: Sequence[Row] = ()
        if state not in WAITING:
            return Held(state)
        if state is State.PENDING:
            rows = yield Statement(HOLD_PENDING, (seq,))
        elif state is State.SCHEDULED:
            rows = yield Statement(HOLD_READY, (seq, seq))
        else:
            rows = yield Statement(HOLD_DELAYED, (seq, NUMBER[state]))
        if rows:
            return Held(state, is_held=rows[0][0])
    raise StoreUnavailableError("the job keeps moving; try again")


def hasten(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    """Make a live job that waits for its time run now, or after another delay (C45)."""
    row = yield from one(CODEC, FIND, request.job_id)
    if row is None:
        return NotFound(request.job_id)
    job = Found(*row)
    held = yield from _hold(job.seq)
    if held.state not in HASTENED:
        return Conflict(request.job_id, held.state)
    now = yield from now_us(env)
    due = now + seconds_to_us(request.delay)
    if due >= job.expires_at:
        return TooLate(request.job_id, from_us(job.expires_at))
    if request.reset_attempts:
        policy = yield from policy_of(env, job.policy)
        yield Statement(RESET_ATTEMPTS, (job.seq,))
        yield Statement(SET_MAX_ATTEMPTS, (policy.max_attempts, job.seq))
    lane = yield from lane_at(env, job.lane, request.priority)
    moved = yield from _place(env, request.job_id, job, held, lane=lane, due=due, now=now)
    if request.priority is not None:
        yield from set_by_hand(env, job.seq, lane)
    return moved


def _place(
    env: Env, job_id: str, job: Found, held: Held, *, lane: int, due: int | None, now: int
) -> Plan[Moved]:
    """Move a locked job to *lane*, due at *due* if that is given."""
    state, run_at = held.state, None
    if due is not None:
        found = rescheduled(held.state, is_held=held.is_held, has_key=job.has_key, due=due, now=now)
        state, run_at = (held.state, None) if found is None else found
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    moved = Moved(job_id.lower(), type_, state, held.state)
    if state is not held.state:
        freed = yield from _move(env, job.seq, state, lane=lane, run_at=run_at)
        return with_admitted([moved], (yield from admit(env, freed)))[0]
    if lane != job.lane or state is State.SCHEDULED:
        yield Statement(MOVE[state], (job.seq, lane))
    if run_at is not None:
        yield Statement(SET_DUE[state], (from_us(run_at), job.seq))
    return moved


def _move(env: Env, seq: int, state: State, *, lane: int, run_at: int | None) -> Plan[FreedSlots]:
    """Move a locked job to another state; return the slots to admit to."""
    (job,) = detached((yield Statement(DETACH, ([seq],))))
    fields = {**placed(job, state), "lane": lane}
    if state is State.DELAYED:
        assert run_at is not None
        fields["run_at"] = from_us(run_at)
    else:
        fields |= {"delay": 0, "expires_at": None, "is_in_line": state is State.SCHEDULED}
    freed = FreedSlots()
    freed.add((yield from attach(env, [fields])))
    return freed
