"""What operators do: cancel, retry, discard, pause, limit."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import AttemptOutcome, Category, Failure
from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.job.outcome import Decision
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.limits.concurrency import check_max_running
from fencepost.core.values.ids import wanted_ids
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.errors import ConfigurationError, IllegalTransition
from fencepost.store.interface.batches import with_admitted
from fencepost.store.interface.control import (
    CancelReply,
    Discarded,
    DiscardReply,
    RetryReply,
    RetryRequest,
)
from fencepost.store.interface.replies import Conflict, Duplicate, Moved, NotFound, TooLate
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import BY_NUMBER, MODE_NUMBER, NUMBER, PENDING
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.flows.dependents import end_all, moved
from fencepost.store.sqlite.flows.parents import judge_parents
from fencepost.store.sqlite.jobs.catalog import Env, Tally
from fencepost.store.sqlite.jobs.edit import each, hasten, one, set_priority
from fencepost.store.sqlite.jobs.enqueue import find_holder, take_key
from fencepost.store.sqlite.jobs.finish import STANDING_COLUMNS, Ending, standing
from fencepost.store.sqlite.limits.concurrency import admit

FIND = f"select {STANDING_COLUMNS} from jobs where id in ({{values}})"
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
# Those that wait for all to end had counted the reopened job as ended.
HOLD_UP = f"""
update jobs
set missing = missing + (select count(*) from dependencies where child = jobs.seq and parent = ?)
where state = {PENDING} and missing > 0 and mode = {MODE_NUMBER[Mode.ENDED]}
  and seq in (select child from dependencies where parent = ?)
"""
DISCARD = "update jobs set is_dead_letter = null where id = ? and is_dead_letter = 1 returning seq"
PAUSE = "insert into pauses(scope, name) values (?, ?) on conflict do nothing"
RESUME = "delete from pauses where scope = ? and name = ?"
SET_LIMIT = """
insert into limits(scope, name, max_running) values (?, ?, ?)
on conflict(scope, name) do update set max_running = excluded.max_running
"""
CLEAR_LIMIT = "delete from limits where scope = ? and name = ?"

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20)."""
    now = env.clock.now_us()
    wanted = wanted_ids(job_ids)
    jobs = {}
    for sql, params in values(FIND, [(id_,) for id_ in wanted]):
        for row in (yield Statement(sql, params)):
            jobs[wanted[row[1]]] = standing(row)
    endings: dict[str, Ending] = {}
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
            state = advance(job.state, Event.CANCEL)
            decision = Decision(Event.CANCEL, state, AttemptOutcome.CANCELLED, failure=CANCELLED)
            endings[job.job_id] = Ending(job, decision)
            replies.append(Moved(job.job_id, "", state, job.state))  # told below
    tally = Tally()
    ended = list(endings.values())
    followed = yield from end_all(env, ended, now, tally)
    yield from tally.write()
    told = iter((yield from moved(env, ended, followed)))
    return [next(told) if isinstance(reply, Moved) else reply for reply in replies]


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again: the same job, if it had ended its key taken back first (S3-17, C45)."""
    return (yield from each(requests, lambda request: _retry(env, request)))


def _retry(env: Env, request: RetryRequest) -> Plan[RetryReply]:
    now = env.clock.now_us()
    row = yield from one(FIND_TERMINAL, request.job_id)
    if row is None:
        return NotFound(request.job_id)
    seq, lane, policy_number, number, attempt, key, key_window, mode, slot = row
    was = BY_NUMBER[number]
    if not was.is_terminal:
        return (yield from hasten(env, request, now))
    event = Event.REOPEN_LATER if request.delay > 0 else Event.REOPEN
    try:
        state = advance(was, event)
    except IllegalTransition:
        return Conflict(request.job_id, was)
    policies = yield from env.catalog.policies([policy_number])
    policy = policies.get(policy_number, DEFAULT_POLICY)
    ends = now + seconds_to_us(policy.lifetime)
    if now + seconds_to_us(request.delay) >= ends:
        return TooLate(request.job_id, from_us(ends))
    missing, culprit = yield from judge_parents(seq, mode)
    if culprit is not None:
        return Conflict(request.job_id, culprit.state, culprit.job_id)
    type_ = (yield from env.catalog.lanes([lane]))[lane].type
    if key is not None:
        holder = yield from find_holder(type_, key, now)
        if holder is not None and holder.seq != seq:
            return Duplicate(holder.job_id, type_, key, holder.state, is_rejected=True)
    if missing or (slot is not None and state is State.SCHEDULED):
        state = advance(was, Event.REOPEN_WAITING)
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
    yield Statement(HOLD_UP, (seq, seq))
    tally = Tally()
    tally.move(lane, was, state)
    admitted = yield from admit(env, () if slot is None else (seq,), now, tally)
    yield from tally.write()
    return with_admitted([Moved(request.job_id.lower(), type_, state, was)], admitted)[0]


def discard(env: Env, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
    """Take dead letters off the list."""
    replies: list[DiscardReply] = []
    for job_id in job_ids:
        row = yield from one(DISCARD, job_id)
        replies.append(NotFound(job_id) if row is None else Discarded(job_id.lower()))
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
    yield Statement(PAUSE if is_paused else RESUME, (scope.value, name))


def limit(env: Env, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
    """Bound how many jobs of a queue or of the whole store run at once."""
    if scope is Scope.TYPE:
        raise ConfigurationError("limits are for a queue or the whole app, not for a type")
    check_max_running(max_running)
    key = "" if scope is Scope.APP else name
    if max_running is None:
        yield Statement(CLEAR_LIMIT, (scope.value, key))
    else:
        yield Statement(SET_LIMIT, (scope.value, key, max_running))
