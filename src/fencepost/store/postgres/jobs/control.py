"""What operators do: cancel, retry, replay, discard, pause, limit.

Whoever does something to a terminal job locks its row of ``done`` first, and whoever changes what a
job is, its row of ``job``; then comes the look at what it is, which nobody can change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fencepost.core.flows.dependencies import Mode
from fencepost.core.flows.dependents import Parent, judge
from fencepost.core.job.job import AttemptOutcome, Category, Failure
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.outcome import Decision
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.limits.concurrency import check_max_running
from fencepost.core.values.ids import id_text, wanted_ids
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.errors import ConfigurationError, IllegalTransition
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import (
    CancelReply,
    Discarded,
    DiscardReply,
    Replay,
    Replayed,
    ReplayReply,
    RetryReply,
    RetryRequest,
    Sealed,
    as_replay,
)
from fencepost.store.interface.replies import Conflict, Duplicate, Moved, NotFound, TooLate
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.engine.clock import now_us
from fencepost.store.postgres.flows.dependents import end
from fencepost.store.postgres.flows.parents import hold_of
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.edit import (
    hasten,
    lane_at,
    lock,
    one,
    set_by_hand,
    states_of,
)
from fencepost.store.postgres.jobs.finish import (
    LIFT,
    LIFT_DONE,
    Ending,
    Standing,
    lifted,
    placed,
    put,
)
from fencepost.store.postgres.jobs.rows import hex_fields
from fencepost.store.postgres.limits.concurrency import Touched, admit
from fencepost.store.sql.codes import BY_NUMBER, ENCRYPTED, MODE_NUMBER, MODES

A = TypeVar("A")
B = TypeVar("B")

FIND = "select id::text, seq from fencepost.job where id = any (%s::uuid[])"
LOCK_ENDED = "select fencepost.lock_ended(%s)"
FIND_TERMINAL = """
select job.seq, job.lane, job.policy, job.key, job.key_window, job.mode, done.state, done.attempt,
  keyed.slot is not null
from fencepost.job join fencepost.done on done.seq = job.seq
left join fencepost.keyed on keyed.seq = job.seq
where job.id = %s::uuid for update of done
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
from (select %s::smallint as encoding, %s::text as payload, %s::text as payload_hex,
  %s::text as callback_url) as given,
lateral (
  select fencepost.enqueue_each(%s::timestamptz, json_build_array(json_build_object(
    'id', %s::uuid, 'lane', job.lane, 'type', lane.type, 'policy', job.policy,
    'max_attempts', %s::integer, 'delay', 0, 'lifetime', %s::bigint, 'key', job.key,
    'key_window', job.key_window, 'correlation_id', job.correlation_id, 'tags', job.tags,
    'replay_of', job.id, 'encoding', coalesce(given.encoding, job.encoding),
    'payload', case when given.encoding is null then job.payload else given.payload end,
    'payload_hex', case when given.encoding is null then encode(job.payload_bytes, 'hex')
      else given.payload_hex end, 'flow', job.flow, 'node', job.node,
    'mode', job.mode, 'depth', job.depth, 'gathers', job.gathers,
    'own_priority', job.own_priority, 'missing', %s::integer,
    'callback_url', coalesce(given.callback_url, job.callback_url), 'callback', (
      select json_build_array(c.lane, c.policy, c.max_attempts, c.lifetime)
      from fencepost.callback c where c.seq = job.seq),
    'slot', keyed.slot, 'concurrency_key', keyed.key, 'max_running', keyed.max_running,
    'submitter', job.submitter
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
PAUSE = "insert into fencepost.pause(scope, name) values (%s, %s) on conflict do nothing"
RESUME = "delete from fencepost.pause where scope = %s and name = %s"
SET_LIMIT = """
insert into fencepost.max_running(scope, name, max_running) values (%s, %s, %s)
on conflict (scope, name) do update set max_running = excluded.max_running
"""
CLEAR_LIMIT = "delete from fencepost.max_running where scope = %s and name = %s"

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20)."""
    wanted = list(wanted_ids(job_ids).values())
    if not wanted:
        return [NotFound(job_id) for job_id in job_ids]
    seqs: dict[str, int] = dict((yield Statement(FIND, (wanted,))))
    jobs = lifted((yield Statement(LIFT, (sorted(seqs.values()),))))
    states = yield from states_of(set(seqs.values()) - {job.seq for job in jobs})
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


def _cancelled(job: Standing) -> Decision:
    state = advance(job.state, Event.CANCEL)
    return Decision(Event.CANCEL, state, AttemptOutcome.CANCELLED, failure=CANCELLED)


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again: the same job, if it had ended its key taken back first (S3-17, C45)."""
    yield from lock(LOCK_ENDED, [request.job_id for request in requests])
    return (yield from each(requests, lambda request: _retry(env, request)))


def _retry(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    row = yield from one(FIND_TERMINAL, request.job_id)
    if row is None:  # live, or unknown
        reply = yield from hasten(env, request)
        if not isinstance(reply, Conflict) or not reply.state.is_terminal:
            return reply
        row = yield from one(FIND_TERMINAL, request.job_id)  # it has ended meanwhile
        if row is None:
            return reply
    seq, lane, policy_number, key, key_window, mode, number, attempt, is_keyed = row
    event = Event.REOPEN_LATER if request.delay > 0 else Event.REOPEN
    try:
        state = advance(BY_NUMBER[number], event)
    except IllegalTransition:
        return Conflict(request.job_id, BY_NUMBER[number])
    policy = yield from _policy(env, policy_number)
    lifetime = seconds_to_us(policy.lifetime)
    if seconds_to_us(request.delay) >= lifetime:
        return TooLate(request.job_id, from_us((yield from now_us(env)) + lifetime))
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
    max_attempts = policy.max_attempts if request.reset_attempts else attempt + 1
    touched = yield from _reopen(
        env, request, seq=seq, state=state, max_attempts=max_attempts, lifetime=policy.lifetime,
        waits={"mode": mode, "missing": missing} if missing else {},
    )  # fmt: skip
    yield Statement(HOLD_UP_AGAIN, (MODE_NUMBER[Mode.ENDED], seq))
    if request.priority is not None:
        yield from set_by_hand(env, seq, (yield from lane_at(env, lane, request.priority)))
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
    lane = yield from lane_at(env, job.lane, request.priority)
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


def replay(env: Env, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Put a fresh job in the place of each dead letter, both or neither (S3-27)."""
    given = [as_replay(request) for request in requests]
    yield from lock(LOCK_ENDED, [request.job_id for request in given])
    return (yield from each(given, lambda request: _replay(env, request)))


def _replay(env: Env, request: Replay) -> Plan[ReplayReply]:
    row = yield from one(FIND_DEAD, request.job_id)
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


def pause(env: Env, scope: Scope, name: str) -> Plan[None]:
    """Hand out no more jobs of a queue or a type."""
    return _pause(scope, name, is_paused=True)


def resume(env: Env, scope: Scope, name: str) -> Plan[None]:
    """Hand out jobs of a queue or a type again."""
    return _pause(scope, name, is_paused=False)


def _pause(scope: Scope, name: str, *, is_paused: bool) -> Plan[None]:
    if scope is Scope.APP:
        raise ConfigurationError("pause a queue or a type; to pause all, stop the workers")
    yield Statement(PAUSE if is_paused else RESUME, (scope.value, name), alone=True)


def limit(env: Env, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
    """Bound how many jobs of a queue or of the whole store run at once."""
    if scope is Scope.TYPE:
        raise ConfigurationError("limits are for a queue or the whole app, not for a type")
    check_max_running(max_running)
    key = "" if scope is Scope.APP else name
    if max_running is None:
        yield Statement(CLEAR_LIMIT, (scope.value, key), alone=True)
    else:
        yield Statement(SET_LIMIT, (scope.value, key, max_running), alone=True)
