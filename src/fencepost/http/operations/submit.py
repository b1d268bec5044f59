"""Submitting jobs: one, or many."""

from __future__ import annotations

from msgspec import UNSET

from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import (
    DuplicateJobError,
    ForbiddenError,
    InvalidJobError,
    JobNotFoundError,
)
from fencepost.handles.task import check_bulk
from fencepost.http.auth.scope import Disguised, beyond, disguised, may_see_all, shown
from fencepost.http.operations.after_write import afterwards
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.submission import prepare
from fencepost.store.interface.replies import Duplicate, EnqueueReply
from fencepost.wire.jobs import (
    Accepted,
    Batch,
    BatchReply,
    Refused,
    Submission,
    existing_of,
)


async def submit_job(call: Call[Submission, Nothing]) -> Reply:
    """Store a job; strangers who submit at the same time share a commit."""
    session = call.session
    job = await call.compute(lambda: prepare(session, call.body, call.principal))
    known = await disguised(call, [job])
    try:
        reply = await session.submit_async(*known.jobs)
    except InvalidJobError as error:
        raise known.named(error) from None
    if isinstance(reply, Duplicate):
        (existing,) = await session.store.run_async(session.store.reader.get([reply.job_id]))
        if existing is None:
            raise JobNotFoundError(reply.job_id)
        (seen,) = await shown(call, [existing])
        return Reply(existing_of(seen, is_full=may_see_all(call.principal, seen)))
    accepted = _accepted(reply)
    if reply.state is State.DELAYED:
        reading = session.store.run_async(session.store.reader.get([reply.job_id]))
        (stored,) = await afterwards(reading)
        if stored is not None:
            accepted = Accepted(
                id=reply.job_id, type=reply.type, state=reply.state, run_at=stored.run_at
            )
    return Reply(accepted, 201, {"location": f"/v1/jobs/{reply.job_id}"})


def _accepted(reply: EnqueueReply) -> Accepted:
    is_duplicate = isinstance(reply, Duplicate)
    return Accepted(id=reply.job_id, type=reply.type, state=reply.state, duplicate=is_duplicate)


async def submit_batch(call: Call[Batch, Nothing]) -> Reply:
    """Store many jobs in one transaction; with ``atomic``, all or none."""
    batch = call.body
    if not 1 <= len(batch.jobs) <= HTTP_BATCH_MAX:
        raise HttpError(
            f"a batch has 1 to {HTTP_BATCH_MAX:,} jobs, got {len(batch.jobs):,}", status=422
        )
    prepared = await call.compute(
        lambda: [_prepared(call, number, each) for number, each in enumerate(batch.jobs)]
    )
    jobs = check_bulk([each for each in prepared if isinstance(each, NewJob)])
    known = await disguised(call, jobs)
    stored = iter(await _store(call, known, atomic=batch.atomic))
    answers = [each if isinstance(each, Refused) else next(stored) for each in prepared]
    return Reply(BatchReply(jobs=answers), 201)


async def _store(
    call: Call[Batch, Nothing], known: Disguised, *, atomic: bool
) -> list[Accepted | Refused]:
    """Store jobs in one transaction, and say what became of each."""
    session, jobs = call.session, known.jobs
    if not jobs:
        return []
    try:
        carrying = session.carrying(jobs)
        enqueuing = session.store.queue.enqueue(carrying, atomic=atomic)
        replies = await session.store.run_async(enqueuing)
    except InvalidJobError as error:  # what cannot be waited for, or falls due too late
        if atomic or len(jobs) == 1 or not any(map(_may_be_refused, jobs)):
            raise known.named(error) from None
        return await _store_apart(call, known)
    rejected = [each.job_id for each in replies if isinstance(each, Duplicate) and each.is_rejected]
    hidden = await afterwards(beyond(call, rejected))
    return [_answer(reply, hidden) for reply in replies]


async def _store_apart(call: Call[Batch, Nothing], known: Disguised) -> list[Accepted | Refused]:
    """Store each job by itself that the store may refuse, and its whole batch with it."""
    jobs = known.jobs
    lone = [number for number, job in enumerate(jobs) if _may_be_refused(job)]
    others = [number for number, job in enumerate(jobs) if not _may_be_refused(job)]
    plain = known.some([jobs[number] for number in others])
    answers = dict(zip(others, await _store(call, plain, atomic=False), strict=True))
    for number in lone:
        try:
            storing = _store(call, known.some([jobs[number]]), atomic=False)
            (answers[number],) = await afterwards(storing)  # the others are stored
        except InvalidJobError as error:
            answers[number] = Refused(code=error.code, detail=str(error))
    return [answers[number] for number in range(len(jobs))]


def _may_be_refused(job: NewJob) -> bool:
    """Tell whether only the store knows if it can be stored: behind others, or at such a time."""
    return job.after is not None or job.run_at is not None


def _prepared(call: Call[Batch, Nothing], number: int, each: Submission) -> NewJob | Refused:
    """Return a job of a batch, or why it is refused; of an atomic batch, nothing is stored then."""
    try:
        return prepare(call.session, each, call.principal)
    except (InvalidJobError, ForbiddenError) as error:
        if call.body.atomic:
            error.args = (f"job {number} of the batch: {error}",)
            raise
        return Refused(code=error.code, detail=str(error))


def _answer(reply: EnqueueReply, hidden: set[str]) -> Accepted | Refused:
    if not isinstance(reply, Duplicate) or not reply.is_rejected:
        return _accepted(reply)
    existing = None if reply.job_id in hidden else reply.job_id
    error = DuplicateJobError(type=reply.type, key=reply.key, existing_id=existing)
    return Refused(code=error.code, detail=str(error), existing=existing or UNSET)
