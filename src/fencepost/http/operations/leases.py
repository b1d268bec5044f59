"""Leases: which ones workers hold, and what is written under them.

A write is fenced by the lease token, or refused with ``stale_lease``.
One write gets one answer, a batch one for each item. A repeat after a lost answer is safe: with the
same token, it is answered with what was recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from fencepost.core.bounds import (
    CLAIM_MAX,
    CODE_LENGTH_MAX,
    MESSAGE_LENGTH_MAX,
    PAGE_MAX,
    PROGRESS_MESSAGE_LENGTH_MAX,
    RESULT_BYTES_MAX,
    TRACEBACK_LENGTH_MAX,
    TYPE_LENGTH_MAX,
)
from fencepost.core.filter import PageRequest, make_filter, make_page
from fencepost.core.job.failure import unreadable
from fencepost.core.job.job import Category, Failure, Job, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    Unreadable,
    decide,
)
from fencepost.core.job.timeouts import parse_lease_ttl
from fencepost.core.values.payload import NULL, check_size
from fencepost.core.values.signature import with_past
from fencepost.core.values.times import parse_duration
from fencepost.errors import FencepostError, InvalidJobError, StaleLeaseError
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError, status_of
from fencepost.http.request.route import lease_route, route
from fencepost.http.scope import outside, queue_for
from fencepost.observe.log import logger
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    Extended,
    LeaseLost,
    Save,
    Settled,
)
from fencepost.wire.bodies import body_of, check_json
from fencepost.wire.leases import (
    Ack,
    Checkpoint,
    HeldLease,
    HeldLeases,
    Items,
    LeaseQuery,
    LeaseReplies,
    LeaseReply,
    Nack,
    ProgressBody,
    Release,
    WireBeat,
)
from fencepost.worker import Backoffs

T = TypeVar("T")

UNREADABLE_CATEGORY = "unreadable"


@route("GET /v1/leases", "See which jobs workers hold", HeldLeases, "invalid_job")
async def list_leases(call: Call[Nothing, LeaseQuery]) -> Reply:
    """Return running jobs with their leases, those that end first at the top.

    Of the newest 1,000 running jobs.
    """
    query, store = call.query, call.session.store
    limit = make_page(limit=query.limit, after=None).limit
    queue = queue_for(call.principal, query.queue)
    filter = make_filter(state=State.RUNNING, queue=queue)
    page = await store.run_async(store.reader.find(filter, PageRequest(PAGE_MAX)))
    held = [_held(job) for job in page.jobs if job.lease is not None]
    wanted = [lease for lease in held if query.worker in (None, lease.worker)]
    ordered = sorted(wanted, key=lambda lease: (lease.expires_at, lease.job_id))
    return Reply(HeldLeases(leases=ordered[:limit], is_complete=page.next is None))


def _held(job: Job) -> HeldLease:
    lease = job.lease
    assert lease is not None
    return HeldLease(
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        attempt=job.attempt,
        worker=lease.worker,
        fence=lease.version,
        started_at=job.started_at,
        expires_at=lease.expires_at,
        is_expired=lease.expired,
    )


@lease_route(
    "POST /v1/leases/ack",
    "Record that jobs are done",
    "payload_too_large invalid_payload",
    body_max=RESULT_BYTES_MAX,
    is_batch=True,
)
async def acknowledge(call: Call[Ack | Items[Ack], Nothing]) -> Reply:
    """Record that jobs are done."""
    # The correlation id is only logged: unless that is on, the jobs are not read.
    found = await _jobs(call) if logger.isEnabledFor(logging.DEBUG) else {}

    def settlement(item: Ack) -> Settlement:
        result = body_of("result", item.result, item.result_base64, default=NULL)
        outcome = Succeeded(check_size(check_json(result), RESULT_BYTES_MAX))
        decision = decide(_ANY, outcome, call.session.clock.rng)
        job = found.get(item.id)
        return Settlement(
            item.id,
            item.token,
            decision,
            correlation_id=None if job is None else job.correlation_id,
        )

    return await _answer(call, settlement, call.session.store.queue.settle)


@lease_route(
    "POST /v1/leases/nack", "Record that attempts failed", "invalid_duration", is_batch=True
)
async def reject(call: Call[Nack | Items[Nack], Nothing]) -> Reply:
    """Record that attempts failed; the policies of the jobs decide what follows."""
    return await _settle_by_policy(call, _failed)


@lease_route("POST /v1/leases/release", "Give jobs back unrun", "invalid_duration")
async def release(call: Call[Release | Items[Release], Nothing]) -> Reply:
    """Give jobs back unrun; they are not counted as attempted."""
    return await _settle_by_policy(call, _released)


@lease_route("POST /v1/leases/heartbeat", "Extend leases", "invalid_duration")
async def heartbeat(call: Call[WireBeat | Items[WireBeat], Nothing]) -> Reply:
    """Extend leases that are still valid; an expired one is not revived."""

    def beat(item: WireBeat) -> Beat:
        return Beat(item.id, item.token, parse_lease_ttl(item.lease_ttl))

    return await _answer(call, beat, call.session.store.queue.heartbeat)


@lease_route(
    "POST /v1/leases/checkpoint",
    "Save what the next attempt starts from",
    "payload_too_large invalid_payload",
    is_batch=True,
)
async def save_checkpoint(call: Call[Checkpoint | Items[Checkpoint], Nothing]) -> Reply:
    """Save what the next attempt starts from."""

    def save(item: Checkpoint) -> Save:
        checkpoint = body_of("checkpoint", item.checkpoint, item.checkpoint_base64, default=NULL)
        return Save(
            item.id,
            item.token,
            checkpoint=check_size(check_json(checkpoint), call.session.max_payload),
        )

    return await _answer(call, save, call.session.store.queue.save)


@lease_route("POST /v1/leases/progress", "Save the progress of handlers", "invalid_job")
async def save_progress(call: Call[ProgressBody | Items[ProgressBody], Nothing]) -> Reply:
    """Save the progress of handlers."""

    def save(item: ProgressBody) -> Save:
        if not 0 <= item.fraction <= 1:
            raise InvalidJobError(f"fraction must be between 0 and 1, got {item.fraction:g}")
        message = item.message[:PROGRESS_MESSAGE_LENGTH_MAX]
        return Save(item.id, item.token, progress=Progress(fraction=item.fraction, message=message))

    return await _answer(call, save, call.session.store.queue.save)


def _failed(item: Nack) -> Outcome:
    is_unreadable = item.category == UNREADABLE_CATEGORY
    failure = Failure(
        Category.SYSTEM if is_unreadable else Category(item.category),
        (item.message or "no reason given")[:MESSAGE_LENGTH_MAX],
        code=None if item.code is None else item.code[:CODE_LENGTH_MAX],
        exception=None if item.exception is None else item.exception[:TYPE_LENGTH_MAX],
        traceback=None if item.traceback is None else item.traceback[-TRACEBACK_LENGTH_MAX:],
    )
    if is_unreadable:
        return unreadable(failure)
    wait = item.retry_after
    return Failed(failure, None if wait is None else parse_duration(wait, name="retry_after"))


def _released(item: Release) -> Outcome:
    if item.delay is None:
        return Released()
    return Snoozed(parse_duration(item.delay, name="delay"))


class _Any(msgspec.Struct, frozen=True):
    """Stands for any job in ``decide``, whose decision on success depends on none of its fields."""

    attempt: int = 1
    max_attempts: int = 1
    policy: Any = None


_ANY = _Any()


async def _settle_by_policy(
    call: Call[Any, Nothing], outcome_of: Callable[[Any], Outcome]
) -> Reply:
    """Settle as the policies of the jobs decide.

    The jobs are read first. If one has passed to another worker since, the decision is about the
    wrong attempt, but its token is stale, and the store refuses it.
    """
    store, rng = call.session.store, call.session.clock.rng
    items, _ = _items(call.body)
    found = await _jobs(call)
    ask = Backoffs(call.session.tasks)
    # One by one: unreadable payloads are rare.
    pasts = {
        item.id: await store.run_async(store.reader.attempts(item.id))
        for item in items
        if isinstance(item, Nack) and item.category == UNREADABLE_CATEGORY and item.id in found
    }

    def settlement(item: Any) -> Settlement:
        job = found.get(item.id)
        outcome = outcome_of(item)
        if isinstance(outcome, Unreadable):
            outcome = with_past(outcome, pasts.get(item.id))
        if job is None:
            raise StaleLeaseError(item.id)
        decision = decide(job, outcome, rng, ask)
        return Settlement(item.id, item.token, decision, correlation_id=job.correlation_id)

    return await _answer(call, settlement, store.queue.settle)


async def _jobs(call: Call[Any, Nothing]) -> dict[str, Job]:
    """Return the jobs that a request names, by their ids."""
    store = call.session.store
    items, _ = _items(call.body)
    jobs: list[Job | None] = await store.run_async(store.reader.get([item.id for item in items]))
    may_use = call.principal.may_use
    return {job.id: job for job in jobs if job is not None and may_use(job.queue)}


async def _answer(
    call: Call[Any, Nothing], prepare: Callable[[Any], T], write: Callable[[list[T]], Any]
) -> Reply:
    """Write what *prepare* makes of each item, and answer with the outcomes.

    The lease of a job out of reach is not even tried, and answered as if there were no such job: a
    token that was limited to other queues after it had claimed, or that got hold of another's
    lease, could write with it.
    """
    items, is_batch = _items(call.body)
    hidden = await outside(call, [item.id for item in items])
    prepared = await call.compute(lambda: [_prepared(prepare, item, hidden) for item in items])
    wanted = [each for each in prepared if not isinstance(each, FencepostError)]
    replies = iter(await call.session.store.run_async(write(wanted)) if wanted else [])
    outcomes = [
        each if isinstance(each, FencepostError) else _outcome(item, next(replies))
        for item, each in zip(items, prepared, strict=True)
    ]
    if is_batch:
        shown = [_shown(item, each) for item, each in zip(items, outcomes, strict=True)]
        return Reply(LeaseReplies(items=shown))
    (only,) = outcomes
    if isinstance(only, FencepostError):
        raise only
    return Reply(only)


def _items(body: Any) -> tuple[Sequence[Any], bool]:
    if not isinstance(body, Items):
        return [body], False
    if not 1 <= len(body.items) <= CLAIM_MAX:
        raise HttpError(f"a batch has 1 to {CLAIM_MAX:,} items, got {len(body.items):,}")
    return body.items, True


def _prepared(prepare: Callable[[Any], T], item: Any, hidden: set[str]) -> T | FencepostError:
    try:
        prepared = prepare(item)
    except FencepostError as error:
        return error
    return StaleLeaseError(item.id) if item.id in hidden else prepared


def _shown(item: Any, outcome: LeaseReply | FencepostError) -> LeaseReply:
    """Return the outcome of one item of a batch."""
    if isinstance(outcome, LeaseReply):
        return outcome
    state = outcome.state if isinstance(outcome, StaleLeaseError) else None
    return LeaseReply(
        id=item.id,
        status=status_of(outcome),
        state=None if state is None else State(state),
        code=outcome.code,
        detail=str(outcome),
    )


def _outcome(item: Any, reply: Any) -> LeaseReply | StaleLeaseError:
    match reply:
        case AlreadySettled(_, state) if (state is State.COMPLETED) is not isinstance(item, Ack):
            # This token has recorded something else: a worker that released its job and now
            # acknowledges it must learn that the job is not done.
            return StaleLeaseError(item.id, state)
        case AlreadySettled(job_id, state):
            return LeaseReply(id=job_id, status=200, state=state, repeated=True)
        case Settled(job_id, _, state):
            return LeaseReply(id=job_id, status=200, state=state, repeated=False)
        case Extended(job_id, expires_at):
            return LeaseReply(id=job_id, status=200, state=None, expires_at=expires_at)
        case LeaseLost(_, state):
            return StaleLeaseError(item.id, state)
        case _:  # Saved
            return LeaseReply(id=item.id, status=200, state=None)
