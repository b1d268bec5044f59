"""What operators do with jobs: cancel, retry, replay and discard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from fencepost.core.job.lifecycle import State, first_state, reopened
from fencepost.core.job.outcome import cancelled
from fencepost.core.values.names import wanted_ids
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
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import body_of
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.flows.dependents import end_all, wait_again
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.edit import hasten, one, set_priority
from fencepost.store.redis.jobs.enqueue import as_parent, find_holder, take_key
from fencepost.store.redis.jobs.finish import KeptEnding
from fencepost.store.redis.jobs.read import payload_of
from fencepost.store.redis.limits.concurrency import admit, scope_of
from fencepost.store.sql.codec import ENCODING_NUMBER, ENCRYPTED
from fencepost.store.sql.control import each
from fencepost.store.sql.endings import judge_parents


def cancel(env: Env, job_ids: Sequence[str]) -> Plan[list[CancelReply]]:
    """Cancel every live job of *job_ids*; a running one loses its lease at once (C20)."""
    unit = Unit(env)
    yield from unit.start()
    jobs = yield from unit.by_id(wanted_ids(job_ids))
    endings: dict[int, KeptEnding] = {}
    replies: list[CancelReply] = []
    for job_id in job_ids:
        kept = jobs.get(job_id.lower())
        if kept is None:
            replies.append(NotFound(job_id))
        elif kept.seq in endings:
            replies.append(Conflict(job_id, State.CANCELLED))
        elif kept.state.is_terminal:
            replies.append(Conflict(job_id, kept.state))
        else:
            decision = cancelled(kept.state)
            endings[kept.seq] = KeptEnding(kept, decision)
            replies.append(Moved(kept.id, kept.type, decision.state, kept.state))
    _, followed = yield from end_all(unit, list(endings.values()))
    yield from unit.commit()
    for place, reply in enumerate(replies):
        if followed and isinstance(reply, Moved):
            replies[place] = replace(reply, followed=followed)
            break
    return replies


def retry(env: Env, requests: Sequence[RetryRequest]) -> Plan[list[RetryReply]]:
    """Run jobs again; one that had ended takes its key back first (S3-17, C45)."""
    unit = Unit(env)
    yield from unit.start()
    replies = yield from each(requests, partial(_retry, unit))
    yield from unit.commit()
    return replies


def _retry(unit: Unit, request: RetryRequest) -> Plan[RetryReply]:
    kept = yield from one(unit, request.job_id)
    if kept is None:
        return NotFound(request.job_id)
    was, now, document = kept.state, unit.now, kept.document
    if not was.is_terminal:
        return (yield from hasten(unit, kept, request))
    try:
        state = reopened(was, is_later=request.delay > 0)
    except IllegalTransition:
        return Conflict(request.job_id, was)
    policy = kept.policy
    ends = now + seconds_to_us(policy.lifetime)
    if now + seconds_to_us(request.delay) >= ends:
        return TooLate(request.job_id, from_us(ends))
    missing, refusal = yield from _obstacle(unit, kept, request.job_id)
    if refusal is not None:
        return refusal
    if missing or (document.concurrency_key is not None and state is State.SCHEDULED):
        state = reopened(was, is_waiting=True)
    if document.key is not None:
        take_key(unit, kept)
    if document.waits is not None:
        kept.missing = missing
    kept.set_state(state)
    document.run_at = now + seconds_to_us(request.delay)
    if state is State.SCHEDULED:
        document.scheduled_at = now
    document.updated_at = now
    attempt = document.attempt
    document.attempt = 0 if request.reset_attempts else attempt
    document.max_attempts = policy.max_attempts if request.reset_attempts else attempt + 1
    document.expires_at = ends
    document.completed_at = document.failure = document.worker = None
    document.is_dead_letter = False
    unit.put_body("result", kept, None)
    if request.priority is not None:
        yield from set_priority(unit, kept, request.priority)
    if kept.document.children:
        yield from wait_again(unit, kept)
    admitted = yield from admit(unit, [scope_of(kept)])
    return with_admitted([Moved(kept.id, kept.type, state, was)], admitted)[0]


def _obstacle(unit: Unit, kept: Kept, job_id: str) -> Plan[tuple[int, Conflict | Duplicate | None]]:
    """Return for how many jobs it would have to wait, and what forbids that it runs again."""
    document = kept.document
    found = yield from unit.jobs(document.parents or ())
    mode = None if document.waits is None else document.waits[0]
    missing, failed = judge_parents(mode, [as_parent(each) for each in found.values()])
    if failed is not None:
        return 0, Conflict(job_id, failed.state, failed.job_id)
    if document.key is not None:
        holder = yield from find_holder(unit, kept.type, document.key)
        if holder is not None and holder.seq != kept.seq:
            refusal = Duplicate(holder.id, kept.type, document.key, holder.state, is_rejected=True)
            return 0, refusal
    return missing, None


def discard(env: Env, job_ids: Sequence[str]) -> Plan[list[DiscardReply]]:
    """Take dead letters off the list."""
    unit = Unit(env)
    replies: list[DiscardReply] = []
    for job_id in job_ids:
        kept = yield from one(unit, job_id)
        if kept is None or not kept.document.is_dead_letter:
            replies.append(NotFound(job_id))
        else:
            kept.document.is_dead_letter = False
            replies.append(Discarded(kept.id))
    yield from unit.commit()
    return replies


def replay(env: Env, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Replace each dead letter by a fresh job, both or neither (S3-27)."""
    unit = Unit(env)
    replies = yield from replay_in(unit, requests)
    yield from unit.commit()
    return replies


def replay_in(unit: Unit, requests: Sequence[str | Replay]) -> Plan[list[ReplayReply]]:
    """Do the same as a part of a unit."""
    yield from unit.reserve(len(requests))
    yield from unit.start()
    replies: list[ReplayReply] = []
    for request in requests:
        reply = yield from _replay(unit, as_replay(request))
        replies.append(reply)
    return replies


def _replay(unit: Unit, request: Replay) -> Plan[ReplayReply]:
    dead = yield from one(unit, request.job_id)
    if dead is None or not dead.document.is_dead_letter:
        return NotFound(request.job_id)
    document, now = dead.document, unit.now
    if request.payload is None and document.payload_encoding == ENCRYPTED:
        return Sealed(dead.id)
    missing, refusal = yield from _obstacle(unit, dead, dead.id)
    if refusal is not None:
        return refusal
    payload = request.payload
    if payload is None:
        data = yield from payload_of(unit, dead)
        payload = body_of(document.payload_encoding, data)
    ready = State.PENDING if missing else first_state(is_due=True)
    if document.concurrency_key is not None and ready is State.SCHEDULED:
        ready = State.PENDING
    waits = document.waits
    fresh = replace(
        document,
        lease_version=0,
        attempt=0,
        id=request.id or unit.env.clock.new_id(),
        number=0,
        created_at=now,
        lifetime=seconds_to_us(dead.policy.lifetime),
        run_in=0,
        updated_in=0,
        scheduled_in=0 if ready is State.SCHEDULED else None,
        started_in=None,
        completed_in=None,
        max_attempts=dead.policy.max_attempts,
        payload_encoding=ENCODING_NUMBER[payload.encoding],
        payload=None,
        replay_of=document.id,
        waits=None if waits is None else [waits[0], missing, *waits[2:]],
        parents=None,
        children=0,
        failure=None,
        settled_token=None,
        worker=None,
        is_dead_letter=False,
    )
    if request.callback_url is not None:
        fresh.callback_url = request.callback_url
    kept = unit.add(fresh, dead.policy, payload)
    kept.set_state(ready)
    parents = yield from unit.jobs(document.parents or ())
    if parents:
        unit.link(kept, list(parents.values()))
    if document.key is not None:
        take_key(unit, kept)
    document.is_dead_letter = False
    yield from admit(unit, [scope_of(kept)])
    return Replayed(dead.id, kept.id, kept.type, kept.state)
