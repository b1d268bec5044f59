"""What operators do: cancel, retry, edit, replay, discard, pause, limit.

Whoever does something to a terminal job locks its row of ``done`` first, and whoever changes what a
job is, its row of ``job``; then comes the look at what it is, which nobody can change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fencepost.core.concurrency import check_max_running
from fencepost.core.dependencies import Mode
from fencepost.core.dependents import Parent, judge
from fencepost.core.ids import id_text
from fencepost.core.instants import seconds_to_us
from fencepost.core.job import AttemptOutcome, Category, Failure
from fencepost.core.lifecycle import Event, State, advance
from fencepost.core.outcome import Decision
from fencepost.core.policy import DEFAULT_POLICY, Policy
from fencepost.core.priority import Priority
from fencepost.errors import ConfigurationError, IllegalTransition, StoreUnavailableError
from fencepost.store.batches import with_admitted
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.admission import Touched, admit
from fencepost.store.postgres.catalog import Env
from fencepost.store.postgres.dependents import end
from fencepost.store.postgres.looking import get
from fencepost.store.postgres.moving import (
    LIFT,
    LIFT_DONE,
    Ending,
    Standing,
    lifted,
    placed,
    put,
)
from fencepost.store.postgres.parents import hold_of
from fencepost.store.postgres.rows import hex_fields
from fencepost.store.replies import (
    CancelReply,
    Conflict,
    Discarded,
    DiscardReply,
    Duplicate,
    Edited,
    EditReply,
    Moved,
    NotFound,
    Replayed,
    ReplayReply,
    RetryReply,
    Sealed,
)
from fencepost.store.requests import Edit, Replay, RetryRequest, Scope, as_replay
from fencepost.store.states import BY_NUMBER, ENCRYPTED, MODE_NUMBER, MODES
from fencepost.store.texts import encode_json
from fencepost.store.wanted import wanted_ids

A = TypeVar("A")
B = TypeVar("B")

FIND = "select id::text, seq from fencepost.job where id = any (%s::uuid[])"
STATES = "select seq, state from fencepost.jobs where seq = any (%s::bigint[])"
LOCK_ENDED = "select fencepost.lock_ended(%s)"
LOCK_JOBS = """
select 1 from fencepost.job where id = any (%s::uuid[]) order by seq for no key update
"""
FIND_TERMINAL = """
select job.seq, job.lane, job.policy, job.key, job.key_window, job.mode, done.state, done.attempt,
  keyed.slot is not null
from fencepost.job join fencepost.done on done.seq = job.seq
left join fencepost.keyed on keyed.seq = job.seq
where job.id = %s::uuid for update of done
"""
STATE = "select state from fencepost.jobs where id = %s::uuid"
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
update fencepost.job
set lane = %s, max_attempts = %s, reopened_version = %s,
  run_at = now + %s::bigint * interval '1 microsecond',
  expires_at = now + %s::bigint * interval '1 microsecond'
from given where seq = %s
"""
# Those wait again for it that had counted it as ended.
HOLD_UP_AGAIN = """
update fencepost.pending set missing = missing + 1 where seq = any (array(
  select seq from fencepost.pending where mode = %s and slot is null and seq = any (array(
    select child from fencepost.dependency where parent = %s))
  order by seq for update))
"""
FIND_DEAD = """
select job.seq, job.id::text, job.lane, job.policy, job.key, job.encoding, job.mode, keyed.slot
from fencepost.job join fencepost.done on done.seq = job.seq
left join fencepost.keyed on keyed.seq = job.seq
where job.id = %s::uuid and done.is_dead_letter for update of done
"""
# What the dead job still holds passes on to the fresh one.
RELEASE_KEY = """
update fencepost.idempotency set window_ends_at = null where type = %s and key = %s and seq = %s
"""
# The payload does not travel, unless another takes its place.
ENQUEUE_COPY = """
select (reply -> 0 ->> 0)::integer, reply -> 0 ->> 1
from (select %s::smallint as encoding, %s::text as payload, %s::text as payload_hex) as given,
lateral (
  select fencepost.enqueue_each(%s::timestamptz, json_build_array(json_build_object(
    'id', %s::uuid, 'lane', job.lane, 'type', lane.type, 'policy', job.policy,
    'max_attempts', %s::integer, 'delay', 0, 'lifetime', %s::bigint, 'key', job.key,
    'key_window', job.key_window, 'correlation_id', job.correlation_id, 'tags', job.tags,
    'replay_of', job.id, 'encoding', coalesce(given.encoding, job.encoding),
    'payload', case when given.encoding is null then job.payload else given.payload end,
    'payload_hex', case when given.encoding is null then encode(job.payload_bytes, 'hex')
      else given.payload_hex end, 'flow', job.flow, 'node', job.node,
    'mode', job.mode, 'depth', job.depth, 'gathers', job.gathers, 'missing', %s::integer,
    'callback_url', job.callback_url, 'callback', (
      select json_build_array(c.lane, c.policy, c.max_attempts, c.lifetime)
      from fencepost.callback c where c.seq = job.seq),
    'slot', keyed.slot, 'concurrency_key', keyed.key, 'max_running', keyed.max_running
  )), false) as reply
  from fencepost.job join fencepost.lane on lane.lane = job.lane
  left join fencepost.keyed on keyed.seq = job.seq where job.seq = %s
) as copy
"""
COPY_DEPENDENCIES = """
insert into fencepost.dependency(parent, child, place)
select dependency.parent, job.seq, dependency.place
from fencepost.dependency, fencepost.job
where dependency.child = %s and job.id = %s::uuid
"""
RECORD_SUCCESSOR = "update fencepost.done set is_dead_letter = null where seq = %s"
DISCARD = """
with dead as (
  select done.seq, job.id from fencepost.job join fencepost.done on done.seq = job.seq
  where job.id = any (%s::uuid[]) and done.is_dead_letter order by done.seq for update of done
)
update fencepost.done set is_dead_letter = null from dead
where done.seq = dead.seq returning dead.id::text
"""
FIND_EDITABLE = """
select seq, lane from fencepost.job where id = %s::uuid for no key update
"""
# A job that was ready when it was submitted is found by its lane; from now on by its scheduled_at.
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
  update fencepost.lane set low = gone.run_at
  from given, gone where lane.lane = given.lane and lane.low > gone.run_at
), counted as (
  insert into fencepost.tally(lane, state, count)
  select gone.lane, 1, -1 from gone union all select given.lane, 1, 1 from given, gone
)
select seq from gone
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
HOLD_MARKS = "select fencepost.hold_marks()"
SET_LANE = "update fencepost.job set lane = %s where seq = %s"
SET_TAGS = "update fencepost.job set tags = %s::jsonb where seq = %s"
PAUSE = "insert into fencepost.pause(scope, name) values (%s, %s) on conflict do nothing"
RESUME = "delete from fencepost.pause where scope = %s and name = %s"
SET_LIMIT = """
insert into fencepost.max_running(scope, name, max_running) values (%s, %s, %s)
on conflict (scope, name) do update set max_running = excluded.max_running
"""
CLEAR_LIMIT = "delete from fencepost.max_running where scope = %s and name = %s"

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")
LOOKS_MAX = 20
"""How often a job is looked for that moves on between the look and the grasp."""


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20)."""
    wanted = list(wanted_ids(job_ids).values())
    if not wanted:
        return [NotFound(job_id) for job_id in job_ids]
    seqs: dict[str, int] = dict((yield Statement(FIND, (wanted,))))
    jobs = lifted((yield Statement(LIFT, (sorted(seqs.values()),))))
    states = yield from _states(set(seqs.values()) - {job.seq for job in jobs})
    lanes = yield from env.catalog.lanes({job.lane for job in jobs})
    endings = {job.job_id: Ending(job, _cancelled(job)) for job in jobs}
    followed = yield from end(env, list(endings.values()))
    replies: list[CancelReply] = []
    for job_id in job_ids:
        seq = seqs.get(job_id.lower(), 0)
        ending = endings.pop(job_id.lower(), None)
        if ending is not None:
            job, states[seq] = ending.job, ending.decision.state
            type_ = lanes[job.lane].type
            replies.append(Moved(job.job_id, type_, states[seq], job.state, followed))
            followed = ()
        elif seq in states:
            replies.append(Conflict(job_id, states[seq]))
        else:
            replies.append(NotFound(job_id))
    return replies


def _states(seqs: Iterable[int]) -> Plan[dict[int, State]]:
    """Return the states of those jobs that there are."""
    asked = list(seqs)
    rows = (yield Statement(STATES, (asked,))) if asked else []
    return {seq: BY_NUMBER[number] for seq, number in rows}


def _cancelled(job: Standing) -> Decision:
    state = advance(job.state, Event.CANCEL)
    return Decision(Event.CANCEL, state, AttemptOutcome.CANCELLED, failure=CANCELLED)


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run terminal jobs again: the same job, its key taken back first (S3-17)."""
    yield from _lock(LOCK_ENDED, [request.job_id for request in requests])
    return (yield from each(requests, lambda request: _retry(env, request)))


def _retry(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    row = yield from _one(FIND_TERMINAL, request.job_id)
    if row is None:  # live, or unknown
        found = yield from _one(STATE, request.job_id)
        if found is None:
            return NotFound(request.job_id)
        return Conflict(request.job_id, BY_NUMBER[found[0]])
    seq, lane, policy_number, key, key_window, mode, number, attempt, is_keyed = row
    event = Event.REOPEN_LATER if request.delay > 0 else Event.REOPEN
    try:
        state = advance(BY_NUMBER[number], event)
    except IllegalTransition:
        return Conflict(request.job_id, BY_NUMBER[number])
    missing, culprit = yield from _waits(seq, mode)
    if culprit is not None:
        return Conflict(request.job_id.lower(), culprit.state, culprit.job_id)
    if missing or (is_keyed and state is State.SCHEDULED):
        state = advance(BY_NUMBER[number], Event.REOPEN_WAITING)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    if key is not None:
        # While the job is still terminal to all others: whoever wants the key now may take it, and
        # whoever comes after us finds it held.
        params = (env.now, type_, key, seq, key_window)
        ((is_taken,),) = yield Statement(TAKE_KEY, params)
        if not is_taken:
            ((holder_state, holder_id),) = yield Statement(HOLDER, (type_, key))
            return Duplicate(holder_id, type_, key, BY_NUMBER[holder_state], is_rejected=True)
    policy = yield from _policy(env, policy_number)
    max_attempts = policy.max_attempts if request.reset_attempts else attempt + 1
    touched = yield from _reopen(
        env, request, seq=seq, state=state, max_attempts=max_attempts, lifetime=policy.lifetime,
        waits={"mode": mode, "missing": missing} if missing else {},
    )  # fmt: skip
    yield Statement(HOLD_UP_AGAIN, (MODE_NUMBER[Mode.ENDED], seq))
    moved = Moved(request.job_id.lower(), type_, state, BY_NUMBER[number])
    return with_admitted([moved], (yield from admit(env, touched)))[0]


def _waits(seq: int, mode: int | None) -> Plan[tuple[int, Parent | None]]:
    """Return how many a job would wait for now, or who would end it at once."""
    if mode is None:
        return 0, None
    parents = [parent for _, parent in (yield from hold_of(seq))]
    missing, doom = judge(MODES[mode], [parent.state for parent in parents])
    return missing, None if doom is None else parents[doom]


def _reopen(
    env: Env,
    request: RetryRequest,
    *,
    seq: int,
    state: State,
    max_attempts: int,
    lifetime: float,
    waits: dict[str, Any],
) -> Plan[Touched]:
    """Move a job whose row of done is locked back into line; return the slots to admit to."""
    (job,) = lifted((yield Statement(LIFT_DONE, (seq,))))
    lane = yield from _lane_at(env, job.lane, request.priority)
    delay = seconds_to_us(request.delay)
    params = (env.now, lane, max_attempts, job.version, delay, seconds_to_us(lifetime), seq)
    yield Statement(REOPEN, params)
    fields = {
        **placed(job, state),
        "lane": lane,
        "attempt": 0 if request.reset_attempts else job.attempt,
        "delay": delay,
        "expires_at": None,  # what was asked for is not cut short
        "is_in_line": state is State.SCHEDULED,
        **waits,
    }
    touched = Touched()
    touched.add((yield from put(env, [fields])))
    return touched


def _lane_at(env: Env, number: int, priority: Priority | None) -> Plan[int]:
    """Return the lane of the same queue and type at another priority."""
    if priority is None:
        return number
    lane = (yield from env.catalog.lanes([number]))[number]
    return (yield from env.catalog.lane_number(lane.queue, lane.type, priority))


def _policy(env: Env, number: int) -> Plan[Policy]:
    policies = yield from env.catalog.policies([number])
    return policies.get(number, DEFAULT_POLICY)


def each(items: Sequence[A], plan_of: Callable[[A], Plan[B]]) -> Plan[list[B]]:
    """Run one plan after the other, for operations whose jobs come few at a time."""
    replies: list[B] = []
    for item in items:
        reply = yield from plan_of(item)
        replies += [reply]
    return replies


def _one(sql: str, job_id: str) -> Plan[Row | None]:
    """Return the only row that *sql* finds for a job id, if it is one and there is one."""
    for id_ in wanted_ids([job_id]).values():
        rows = yield Statement(sql, (id_,))
        if rows:
            return rows[0]
    return None


def replay(env: Env, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Put a fresh job in the place of each dead letter, both or neither (S3-27)."""
    given = [as_replay(request) for request in requests]
    yield from _lock(LOCK_ENDED, [request.job_id for request in given])
    return (yield from each(given, lambda request: _replay(env, request)))


def _replay(env: Env, request: Replay) -> Plan[ReplayReply]:
    row = yield from _one(FIND_DEAD, request.job_id)
    if row is None:
        return NotFound(request.job_id)
    seq, dead_id, lane, policy_number, key, encoding, mode, slot = row
    if request.payload is None and encoding == ENCRYPTED:
        return Sealed(dead_id)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    missing, culprit = yield from _waits(seq, mode)
    if culprit is not None:
        return Conflict(dead_id, culprit.state, culprit.job_id)
    policy = yield from _policy(env, policy_number)
    if key is not None:
        yield Statement(RELEASE_KEY, (type_, key, seq))
    fresh = id_text(request.id or env.clock.new_id())
    lifetime = seconds_to_us(policy.lifetime)
    settings = (env.now, fresh, policy.max_attempts, lifetime, missing, seq)
    params = (*hex_fields(request.payload), *settings)
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


def discard(job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
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


def edit(env: Env, edits: Sequence[Edit]) -> Plan[list[EditReply]]:
    """Change priority (while waiting) and tags (always)."""
    yield from _lock(LOCK_JOBS, [item.job_id for item in edits])
    return (yield from each(edits, lambda item: _edit(env, item)))


def _lock(sql: str, job_ids: Sequence[str]) -> Plan[None]:
    """Lock jobs in the one order of their numbers, before each is looked at in the given one."""
    if wanted := list(wanted_ids(job_ids).values()):
        yield Statement(sql, (wanted,))


def _edit(env: Env, item: Edit) -> Plan[EditReply]:
    row = yield from _one(FIND_EDITABLE, item.job_id)
    if row is None:
        return NotFound(item.job_id)
    seq, lane = row
    if item.priority is not None:
        wanted = yield from _lane_at(env, lane, item.priority)
        refused = yield from _move(seq, lane=lane, wanted=wanted)
        if refused is not None:
            return Conflict(item.job_id, refused)
    if item.tags is not None:
        yield Statement(SET_TAGS, (encode_json(item.tags) if item.tags else None, seq))
    (job,) = yield from get(env, [item.job_id])
    assert job is not None
    return Edited(job)


def _move(seq: int, *, lane: int, wanted: int) -> Plan[State | None]:
    """Move a waiting job to another lane; return its state if it does not wait."""
    yield Statement(HOLD_MARKS)
    for _ in range(LOOKS_MAX):
        state = (yield from _states([seq]))[seq]
        if state not in MOVE:
            return state
        if wanted == lane:
            return None
        if (yield Statement(MOVE[state], (seq, wanted))):
            yield Statement(SET_LANE, (wanted, seq))
            return None
    raise StoreUnavailableError("the job moves on at every look; edit it again")


def pause(scope: Scope, name: str, *, is_paused: bool) -> Plan[None]:
    """Stop or go on handing out the jobs of a queue or a type."""
    if scope is Scope.APP:
        raise ConfigurationError("pause a queue or a type; to pause all, stop the workers")
    yield Statement(PAUSE if is_paused else RESUME, (scope.value, name), alone=True)


def limit(scope: Scope, name: str, max_running: int | None) -> Plan[None]:
    """Bound how many jobs of a queue or of the whole store run at once."""
    if scope is Scope.TYPE:
        raise ConfigurationError("limits are for a queue or the whole app, not for a type")
    check_max_running(max_running)
    key = "" if scope is Scope.APP else name
    if max_running is None:
        yield Statement(CLEAR_LIMIT, (scope.value, key), alone=True)
    else:
        yield Statement(SET_LIMIT, (scope.value, key, max_running), alone=True)
