"""What operators change about a job that waits: its edits, and when it is due.

The row of ``job`` is locked first, which keeps edits of one job apart; then the row that says where
it waits, which keeps claims, promotions and settlements from moving it. A job that stands in line
gets a new row there, also if only its payload changes: a claim that began before the edit is
committed must pass it over, and not hand out what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.job.edits import HASTENED, WAITING, rescheduled
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, encode_policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import wanted_ids
from fencepost.core.values.instants import from_us, seconds_to_us, to_us
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import Edit, Edited, EditReply, RetryReply, RetryRequest
from fencepost.store.interface.replies import Conflict, Moved, NotFound, TooLate
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.clock import now_us
from fencepost.store.postgres.flows.enqueue import DELIVERY
from fencepost.store.postgres.flows.priorities import pass_on
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.finish import LIFT, lifted, placed, put
from fencepost.store.postgres.jobs.read import get
from fencepost.store.postgres.jobs.rows import body_fields
from fencepost.store.postgres.limits.concurrency import Touched, admit
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sql.texts import encode_json

FIND = """
select job.seq, job.lane, job.policy, (extract(epoch from job.expires_at) * 1000000)::bigint,
  exists (select 1 from fencepost.keyed where keyed.seq = job.seq)
from fencepost.job where id = %s::uuid for no key update
"""
LOCK_JOBS = """
select 1 from fencepost.job where id = any (%s::uuid[]) order by seq for no key update
"""
STATES = "select seq, state from fencepost.jobs where seq = any (%s::bigint[])"
HOLD_MARKS = "select fencepost.hold_marks()"
# Each answers whether nothing but a concurrency key holds the job up.
HOLD_PENDING = "select slot is not null from fencepost.pending where seq = %s for update"
HOLD_DELAYED = "select false from fencepost.delayed where seq = %s and state = %s for update"
# A job that was ready when it was submitted is found by its lane, the others by scheduled_at.
HOLD_READY = """
select false from fencepost.ready where ctid = any (array(
  select ready.ctid from fencepost.job join fencepost.ready
    on ready.lane = job.lane and ready.run_at = job.run_at and ready.seq = job.seq
  where job.seq = %s
  union all
  select ready.ctid from fencepost.ready where ready.seq = %s and ready.scheduled_at is not null
)) for update
"""
# From now on it is found by its scheduled_at.
MOVE_READY = """
with given as (
  select %s::bigint as seq, %s::integer as lane
), gone as (
  delete from fencepost.ready where ctid = any (array(
    select ready.ctid from given join fencepost.job on job.seq = given.seq
    join fencepost.ready
      on ready.lane = job.lane and ready.run_at = job.run_at and ready.seq = job.seq
    union all
    select ready.ctid from given join fencepost.ready on ready.seq = given.seq
    where ready.scheduled_at is not null
  )) returning *
), moved as (
  insert into fencepost.ready(run_at, seq, scheduled_at, lane, attempt, version)
  select gone.run_at, gone.seq, coalesce(gone.scheduled_at, job.created_at), given.lane,
    gone.attempt, gone.version
  from given, gone join fencepost.job on job.seq = gone.seq
), lowered as (
  select fencepost.lower_mark(given.lane, gone.run_at) from given, gone
), counted as (
  insert into fencepost.tally(lane, state, count)
  select gone.lane, 1, -1 from given, gone where gone.lane <> given.lane
  union all select given.lane, 1, 1 from given, gone where gone.lane <> given.lane
)
select seq from gone where (select count(*) from lowered) > 0
"""
MOVE_DELAYED = """
with given as (
  select %s::bigint as seq, %s::integer as lane
), was as (
  select delayed.seq, delayed.lane from given join fencepost.delayed on delayed.seq = given.seq
  for update of delayed
), moved as (
  update fencepost.delayed set lane = given.lane
  from given, was where delayed.seq = was.seq
  returning delayed.seq, was.lane as was_lane, given.lane as lane, delayed.state
), counted as (
  insert into fencepost.tally(lane, state, count)
  select was_lane, state, -1 from moved union all select lane, state, 1 from moved
)
select seq from moved
"""
MOVE_PENDING = """
with given as (
  select %s::bigint as seq, %s::integer as lane
), was as (
  select pending.seq, pending.lane from given join fencepost.pending on pending.seq = given.seq
  for update of pending
), moved as (
  update fencepost.pending set lane = given.lane, priority = case
    when pending.slot is not null then (
      select lane.priority from fencepost.lane where lane.lane = given.lane) end
  from given, was where pending.seq = was.seq
  returning pending.seq, was.lane as was_lane, given.lane as lane
), counted as (
  insert into fencepost.tally(lane, state, count)
  select was_lane, 0, -1 from moved union all select lane, 0, 1 from moved
)
select seq from moved
"""
MOVE = {
    State.PENDING: MOVE_PENDING,
    State.SCHEDULED: MOVE_READY,
    State.DELAYED: MOVE_DELAYED,
    State.RETRYING: MOVE_DELAYED,
}
SET_LANE = "update fencepost.job set lane = %s where seq = %s"
SET_BY_HAND = "update fencepost.job set lane = %s, own_priority = null where seq = %s"
SET_TAGS = "update fencepost.job set tags = %s::jsonb where seq = %s"
SET_PAYLOAD = """
update fencepost.job set encoding = %s, payload = %s, payload_bytes = %s where seq = %s
"""
SET_CORRELATION = "update fencepost.job set correlation_id = %s where seq = %s"
SET_CALLBACK = "update fencepost.job set callback_url = %s where seq = %s"
FORGET_CALLBACK = "delete from fencepost.callback where seq = %s"
POLICY_NUMBER = "select fencepost.policy_number(%s, null, %s)"
ASK_BACK = """
insert into fencepost.callback(seq, lane, policy, max_attempts, lifetime)
values (%s, %s, %s, %s, %s)
"""
SET_DUE = {
    State.PENDING: "update fencepost.pending set run_at = %s where seq = %s",
    State.DELAYED: "update fencepost.delayed set run_at = %s where seq = %s",
    State.RETRYING: "update fencepost.delayed set run_at = %s where seq = %s",
}
RESET_ATTEMPTS = "update fencepost.delayed set attempt = 0 where seq = %s"
SET_MAX_ATTEMPTS = "update fencepost.job set max_attempts = %s where seq = %s"

LOOKS_MAX = 20
"""How often a job is looked for that moves on between the look and the grasp."""


class Found(NamedTuple):
    """A job whose row of ``job`` is locked."""

    seq: int
    lane: int
    policy: int
    expires_at: int
    has_key: bool


class Held(NamedTuple):
    """Where a job is; if it waits there, nobody else can move it."""

    state: State
    is_held: bool = False
    """Whether it waits for nothing but a slot of its concurrency key."""


def states_of(seqs: Iterable[int]) -> Plan[dict[int, State]]:
    """Return the states of those jobs that there are; one that was lost stands nowhere."""
    asked = list(seqs)
    rows = (yield Statement(STATES, (asked,))) if asked else []
    return {seq: BY_NUMBER[number] for seq, number in rows if number is not None}


def lock(sql: str, job_ids: Sequence[str]) -> Plan[None]:
    """Lock jobs in the one order of their numbers, before each is looked at in the given one."""
    if wanted := list(wanted_ids(job_ids).values()):
        yield Statement(sql, (wanted,))


def one(sql: str, job_id: str) -> Plan[Row | None]:
    """Return the only row that *sql* finds for a job id, if it is one and there is one."""
    for id_ in wanted_ids([job_id]).values():
        rows = yield Statement(sql, (id_,))
        if rows:
            return rows[0]
    return None


def edit(env: Env, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change tags at any time, all else while the job waits (S1-106, S1-107, C46)."""
    replies: list[EditReply] = []
    yield from lock(LOCK_JOBS, [item.job_id for item in edits])
    for item in edits:
        reply = yield from _edit(env, item)
        replies += [reply]
    return replies


def _edit(env: Env, item: Edit) -> Plan[EditReply]:
    row = yield from one(FIND, item.job_id)
    if row is None:
        return NotFound(item.job_id)
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
    (seen,) = yield from get(env, [item.job_id])
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
    """Have the end of a job told of, as a submission does; nothing is remembered of the numbers."""
    lane = yield from env.catalog.lane_number(DELIVERY.queue, DELIVERY.type, DELIVERY.priority)
    policy = DELIVERY.policy
    ((number,),) = yield Statement(
        POLICY_NUMBER, (encode_policy(policy), seconds_to_us(policy.timeout))
    )
    lifetime = seconds_to_us(policy.lifetime)
    yield Statement(ASK_BACK, (seq, lane, number, policy.max_attempts, lifetime))


def set_by_hand(env: Env, seq: int, lane: int) -> Plan[None]:
    """Write down a priority that holds from now on; those that inherited the job's own follow."""
    yield Statement(SET_BY_HAND, (lane, seq))
    yield from pass_on(env, seq)


def lane_at(env: Env, number: int, priority: Priority | None) -> Plan[int]:
    """Return the lane of the same queue and type at another priority."""
    if priority is None:
        return number
    lane = (yield from env.catalog.lanes([number]))[number]
    return (yield from env.catalog.lane_number(lane.queue, lane.type, priority))


def _hold(seq: int) -> Plan[Held]:
    """Keep a job where it waits, if it does; else return its state."""
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
            number = {State.DELAYED: 2, State.RETRYING: 4}[state]
            rows = yield Statement(HOLD_DELAYED, (seq, number))
        if rows:
            return Held(state, is_held=rows[0][0])
    raise StoreUnavailableError("the job moves on at every look; try again")


def hasten(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    """Have a live job that waits for its time run now, or after another delay (C45)."""
    row = yield from one(FIND, request.job_id)
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
        policies = yield from env.catalog.policies([job.policy])
        policy = policies.get(job.policy, DEFAULT_POLICY)
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
    """Put a job that is held where it waits into *lane*, to be due at *due* if that is given."""
    state, run_at = held.state, None
    if due is not None:
        found = rescheduled(held.state, is_held=held.is_held, has_key=job.has_key, due=due, now=now)
        state, run_at = (held.state, None) if found is None else found
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    moved = Moved(job_id.lower(), type_, state, held.state)
    if state is not held.state:
        touched = yield from _move(env, job.seq, state, lane=lane, run_at=run_at)
        return with_admitted([moved], (yield from admit(env, touched)))[0]
    if lane != job.lane or state is State.SCHEDULED:
        yield Statement(MOVE[state], (job.seq, lane))
    if run_at is not None:
        yield Statement(SET_DUE[state], (from_us(run_at), job.seq))
    return moved


def _move(env: Env, seq: int, state: State, *, lane: int, run_at: int | None) -> Plan[Touched]:
    """Move a job that is held into another state; return the slots to admit to."""
    (job,) = lifted((yield Statement(LIFT, ([seq],))))
    fields = {**placed(job, state), "lane": lane}
    if state is State.DELAYED:
        assert run_at is not None
        fields["run_at"] = from_us(run_at)
    else:
        fields |= {"delay": 0, "expires_at": None, "is_in_line": state is State.SCHEDULED}
    touched = Touched()
    touched.add((yield from put(env, [fields])))
    return touched
