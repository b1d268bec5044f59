"""What a worker writes under its leases: fenced by the token, or refused with ``stale_lease``.

One write is answered by itself, many by a reply each. A repeat after a lost answer is safe: the
same token again is told what had become of it.
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
    PROGRESS_MESSAGE_LENGTH_MAX,
    RESULT_BYTES_MAX,
    TRACEBACK_LENGTH_MAX,
    TYPE_LENGTH_MAX,
)
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
from fencepost.core.values.duration import parse_duration
from fencepost.core.values.payload import NULL, check_size
from fencepost.core.values.skew import with_past
from fencepost.errors import FencepostError, InvalidJobError, StaleLeaseError
from fencepost.http.auth.scope import outside
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError, status_of
from fencepost.observe.log import logger
from fencepost.store.interface.queue import AlreadySettled, Extended, Save, Settled
from fencepost.store.interface.queue import Beat as StoreBeat
from fencepost.store.interface.replies import LeaseLost
from fencepost.wire.bodies import body_of, check_json
from fencepost.wire.leases import (
    Ack,
    Beat,
    Checkpoint,
    Items,
    LeaseReplies,
    LeaseReply,
    Nack,
    ProgressBody,
    Release,
)
from fencepost.worker import Backoffs

T = TypeVar("T")

UNREADABLE_CATEGORY = "unreadable"


async def acknowledge(call: Call[Ack | Items[Ack], Nothing]) -> Reply:
    """Record that jobs are done."""
    # Only the log names a correlation id: where nobody reads it, the jobs are not looked up.
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


async def reject(call: Call[Nack | Items[Nack], Nothing]) -> Reply:
    """Record that attempts failed; what becomes of the jobs, their policies say."""
    return await _settle_by_policy(call, _failed)


async def release(call: Call[Release | Items[Release], Nothing]) -> Reply:
    """Give jobs back unrun; they are not counted as attempted."""
    return await _settle_by_policy(call, _released)


async def heartbeat(call: Call[Beat | Items[Beat], Nothing]) -> Reply:
    """Extend leases that are still valid; one that has run out is not revived."""

    def beat(item: Beat) -> StoreBeat:
        return StoreBeat(item.id, item.token, parse_lease_ttl(item.lease_ttl))

    return await _answer(call, beat, call.session.store.queue.heartbeat)


async def save_checkpoint(call: Call[Checkpoint | Items[Checkpoint], Nothing]) -> Reply:
    """Keep what the next attempt is to start from."""

    def save(item: Checkpoint) -> Save:
        checkpoint = body_of("checkpoint", item.checkpoint, item.checkpoint_base64, default=NULL)
        return Save(
            item.id,
            item.token,
            checkpoint=check_size(check_json(checkpoint), call.session.max_payload),
        )

    return await _answer(call, save, call.session.store.queue.save)


async def save_progress(call: Call[ProgressBody | Items[ProgressBody], Nothing]) -> Reply:
    """Keep how far handlers have come."""

    def save(item: ProgressBody) -> Save:
        if not 0 <= item.fraction <= 1:
            raise InvalidJobError(f"fraction must lie between 0 and 1, got {item.fraction:g}")
        message = item.message[:PROGRESS_MESSAGE_LENGTH_MAX]
        return Save(item.id, item.token, progress=Progress(item.fraction, message))

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
    """What ``decide`` is told of a job that has succeeded: it makes no difference which."""

    attempt: int = 1
    max_attempts: int = 1
    policy: Any = None


_ANY = _Any()


async def _settle_by_policy(
    call: Call[Any, Nothing], outcome_of: Callable[[Any], Outcome]
) -> Reply:
    """Settle what the jobs' own policies decide.

    The jobs are read first. Should one have passed to another worker since, the decision is of the
    wrong attempt, and its token is stale: the store refuses it.
    """
    store, rng = call.session.store, call.session.clock.rng
    items, _ = _items(call.body)
    found = await _jobs(call)
    ask = Backoffs(call.session.tasks)
    # One by one: a worker meets few of them, and stops claiming such jobs if it is wise.
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
    """Write what *prepare* makes of each item, and say what became of it."""
    items, is_batch = _items(call.body)
    hidden = await outside(call, [item.id for item in items])
    if not is_batch:
        prepared_one = await call.compute(lambda: prepare(items[0]))
        (reply,) = await _written(call, items, [prepared_one], write, hidden)
        return Reply(_single(items[0], reply))
    prepared = await call.compute(lambda: [_prepared(prepare, item) for item in items])
    good = [not isinstance(each, LeaseReply) for each in prepared]
    valid = [item for item, is_good in zip(items, good, strict=True) if is_good]
    wanted = [each for each in prepared if not isinstance(each, LeaseReply)]
    replies = iter(await _written(call, valid, wanted, write, hidden))
    answers = [
        each if isinstance(each, LeaseReply) else _reply_of(item, next(replies))
        for item, each in zip(items, prepared, strict=True)
    ]
    return Reply(LeaseReplies(items=answers))


async def _written(
    call: Call[Any, Nothing],
    items: Sequence[Any],
    wanted: Sequence[T],
    write: Callable[[list[T]], Any],
    hidden: set[str],
) -> list[Any]:
    """Write what is *wanted* of each item; one out of reach is answered as one that is not there.

    Such a lease is not even tried: a token that was bound to queues after it had claimed, or that
    was told a lease of another, could write with it.
    """
    within = [each for item, each in zip(items, wanted, strict=True) if item.id not in hidden]
    replies = iter(await call.session.store.run_async(write(within)) if within else [])
    return [LeaseLost(item.id) if item.id in hidden else next(replies) for item in items]


def _items(body: Any) -> tuple[Sequence[Any], bool]:
    if not isinstance(body, Items):
        return [body], False
    if not 1 <= len(body.items) <= CLAIM_MAX:
        raise HttpError(
            f"a batch has 1 to {CLAIM_MAX:,} items, got {len(body.items):,}", status=422
        )
    return body.items, True


def _prepared(prepare: Callable[[Any], T], item: Any) -> T | LeaseReply:
    try:
        return prepare(item)
    except FencepostError as error:
        return LeaseReply(
            id=item.id, status=status_of(error), state=None, code=error.code, detail=str(error)
        )


def _single(item: Any, reply: Any) -> LeaseReply:
    reply = _contradicted(item, reply)
    if isinstance(reply, LeaseLost):
        raise StaleLeaseError(item.id, reply.state)
    return _reply_of(item, reply)


def _contradicted(item: Any, reply: Any) -> Any:
    """Return *reply*; LeaseLost for the repeat of a settlement that had been another one.

    A token that gave its job back, and now says that the job is done, is told that it is not.
    """
    if isinstance(reply, AlreadySettled):
        is_done = reply.state is State.COMPLETED
        if is_done is not isinstance(item, Ack):
            return LeaseLost(reply.job_id, reply.state)
    return reply


def _reply_of(item: Any, reply: Any) -> LeaseReply:
    match _contradicted(item, reply):
        case Settled(job_id, _, state):
            return LeaseReply(id=job_id, status=200, state=state, repeated=False)
        case AlreadySettled(job_id, state):
            return LeaseReply(id=job_id, status=200, state=state, repeated=True)
        case Extended(job_id, expires_at):
            return LeaseReply(id=job_id, status=200, state=None, expires_at=expires_at)
        case LeaseLost(_, state):
            error = StaleLeaseError(item.id)
            return LeaseReply(
                id=item.id, status=409, state=state, code=error.code, detail=str(error)
            )
        case _:  # Saved
            return LeaseReply(id=item.id, status=200, state=None)
