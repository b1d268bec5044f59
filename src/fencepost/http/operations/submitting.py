"""Submitting jobs: one, or many."""

from __future__ import annotations

from fencepost.app.session import Session
from fencepost.app.task import check_bulk
from fencepost.core.job import NewJob
from fencepost.core.lifecycle import State
from fencepost.core.limits import HTTP_BATCH_MAX
from fencepost.errors import (
    DuplicateJobError,
    ForbiddenError,
    InvalidJobError,
    JobNotFoundError,
)
from fencepost.http.call import Call, Nothing, Reply
from fencepost.http.operations.afterwards import afterwards
from fencepost.http.problems import HttpError
from fencepost.http.submission import prepare
from fencepost.store.replies import Duplicate, EnqueueReply
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
    reply = await session.submit_async(job)
    if isinstance(reply, Duplicate):
        (existing,) = await session.store.run_async(session.store.get([reply.job_id]))
        if existing is None:
            raise JobNotFoundError(reply.job_id)
        return Reply(existing_of(existing))
    accepted = _accepted(reply)
    if reply.state is State.DELAYED:
        reading = session.store.run_async(session.store.get([reply.job_id]))
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
    stored = iter(await _store(call.session, jobs, atomic=batch.atomic))
    answers = [each if isinstance(each, Refused) else next(stored) for each in prepared]
    return Reply(BatchReply(jobs=answers), 201)


async def _store(session: Session, jobs: list[NewJob], *, atomic: bool) -> list[Accepted | Refused]:
    """Store *jobs* in one transaction, and say what became of each."""
    store = session.store
    if not jobs:
        return []
    try:
        carrying = session.carrying(jobs)
        replies = await store.run_async(store.enqueue(carrying, atomic=atomic))
    except InvalidJobError:  # what cannot be waited for, or falls due too late
        if atomic or len(jobs) == 1:
            raise
        return await _store_apart(session, jobs)
    return [_answer(reply) for reply in replies]


async def _store_apart(session: Session, jobs: list[NewJob]) -> list[Accepted | Refused]:
    """Store each job by itself that the store may refuse, and its whole batch with it."""
    lone = [number for number, job in enumerate(jobs) if _may_be_refused(job)]
    others = [number for number, job in enumerate(jobs) if not _may_be_refused(job)]
    answers = dict(
        zip(others, await _store(session, [jobs[n] for n in others], atomic=False), strict=True)
    )
    for number in lone:
        try:
            storing = _store(session, [jobs[number]], atomic=False)
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


def _answer(reply: EnqueueReply) -> Accepted | Refused:
    if isinstance(reply, Duplicate) and reply.is_rejected:
        error = DuplicateJobError(type=reply.type, key=reply.key, existing_id=reply.job_id)
        return Refused(code=error.code, detail=str(error), existing=reply.job_id)
    return _accepted(reply)
