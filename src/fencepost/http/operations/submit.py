"""Submitting: jobs, batches of jobs, and events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from fencepost.actions.local.steps import stored as stored_job
from fencepost.actions.options import Options, UsingOptions, check_bulk, merge, new_job
from fencepost.actions.replies import KnownJob
from fencepost.actions.session import Session
from fencepost.core.access.tokens import Principal
from fencepost.core.flows.dependencies import check_breadth
from fencepost.core.job.idempotency import OnDuplicate, check_foreign_key
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Retry
from fencepost.core.job.task import ForeignTask, Task
from fencepost.core.values.names import RESERVED_TYPES, check_own_type
from fencepost.core.values.payload import check_size
from fencepost.errors import (
    DuplicateJobError,
    ForbiddenError,
    InvalidJobError,
    JobNotFoundError,
)
from fencepost.http.request.call import Call, Nothing, Reply, afterwards
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import submit_route
from fencepost.http.scope import (
    Disguised,
    beyond,
    comparable,
    disguised,
    may_see_all,
    shown,
    submitted_by,
)
from fencepost.store.interface.queue import Duplicate, EnqueueReply
from fencepost.wire.bodies import body_of, check_json
from fencepost.wire.bounds import HTTP_BATCH_MAX
from fencepost.wire.events import EventBody, Sent
from fencepost.wire.jobs import (
    Accepted,
    Batch,
    BatchReply,
    ExistingJob,
    Refused,
    RetryOptions,
    Submission,
    existing_of,
)

_PLAIN = tuple(
    name for name in Submission.__struct_fields__ if name in UsingOptions.__annotations__
)
_values = attrgetter(*_PLAIN)
_NOTHING = (None,) * len(_PLAIN)
_NO_OPTIONS = Options()


def prepare(session: Session, submission: Submission, principal: Principal) -> NewJob:
    """Return the job that *submission* describes, or raise InvalidJobError or ForbiddenError."""
    task = task_for(session, submission.type)
    payload = body_of("payload", submission.payload, submission.payload_base64)
    check_size(payload, session.max_payload)
    job = new_job(task, _checked(task, payload), _options(session, submission))
    return submitted_by(principal, job)


def task_for(session: Session, type: str) -> Task | ForeignTask:
    """Return the task of this name; workers may know one that the app does not."""
    known = session.tasks.get(type)
    if known is not None and not type.startswith(RESERVED_TYPES):
        return known
    return ForeignTask(type=check_own_type(type), policy=session.policy)


def _checked(task: Task | ForeignTask, payload: Body) -> Body:
    """Return *payload* if the handler can read it; it is stored as it was written."""
    if isinstance(task, Task):
        task.signature.decode(payload)
        return payload
    return check_json(payload)


def _options(session: Session, submission: Submission) -> Options:
    values = _values(submission)
    if values == _NOTHING:
        return _NO_OPTIONS
    for ids in (submission.after, submission.after_any):
        check_breadth(len(ids or ()))  # before each of them is checked
    given = {name: value for name, value in zip(_PLAIN, values, strict=True) if value is not None}
    if "key" in given:
        check_foreign_key(given["key"])
    if "retry" in given:
        given["retry"] = _retry(given["retry"])
    options = cast(UsingOptions, given)
    return merge(_NO_OPTIONS, options, session.timeouts, webhooks=session.webhooks)


def _retry(options: RetryOptions) -> Retry:
    given: dict[str, Any] = {
        name: value
        for name in RetryOptions.__struct_fields__
        if (value := getattr(options, name)) is not None
    }
    return Retry(**given)


def accepted(job: KnownJob, comparable: Collection[str] = ()) -> Accepted:
    """Return a stored job, or the one that holds its key, in the form in which it is sent.

    If it is one of those *comparable*, it says where their payloads differ.
    """
    is_duplicate = getattr(job, "duplicate", False)
    differs = getattr(job, "differs", ()) if is_duplicate and job.id in comparable else UNSET
    return Accepted(
        id=job.id, type=job.type, state=job.state, duplicate=is_duplicate, differs=differs
    )


async def accepted_all(call: Call[Any, Any], jobs: Sequence[KnownJob]) -> list[Accepted]:
    """Return jobs that were stored together."""
    duplicates = [job.id for job in jobs if getattr(job, "duplicate", False)]
    seen = await afterwards(comparable(call, duplicates)) if duplicates else ()
    return [accepted(job, seen) for job in jobs]


def created(job: KnownJob) -> Reply:
    """Answer with a stored job and its location."""
    return Reply(accepted(job), 201, {"location": f"/v1/jobs/{job.id}"})


@submit_route("POST /v1/jobs", "Submit a job", {201: Accepted, 200: ExistingJob})
async def submit_job(call: Call[Submission, Nothing]) -> Reply:
    """Store a job; submissions that arrive at the same time share a commit."""
    session = call.session
    job = await call.compute(lambda: prepare(session, call.body, call.principal))
    known = await disguised(call, [job])
    try:
        reply = await session.submit_async(*known.jobs)
    except InvalidJobError as error:
        raise known.named(error) from None
    if reply.duplicate:
        (existing,) = await session.store.run_async(session.store.reader.get([reply.id]))
        if existing is None:
            raise JobNotFoundError(reply.id)
        (seen,) = await shown(call, [existing])
        is_full = may_see_all(call.principal, seen)
        return Reply(existing_of(seen, reply.differs, is_full=is_full))
    answer = created(reply)
    if reply.state is State.DELAYED:
        (delayed,) = await afterwards(session.store.run_async(session.store.reader.get([reply.id])))
        if delayed is not None:
            answer = replace(answer, body=replace(answer.body, run_at=delayed.run_at))
    return answer


@submit_route("POST /v1/jobs/batch", "Submit many jobs", {201: BatchReply}, is_batch=True)
async def submit_batch(call: Call[Batch, Nothing]) -> Reply:
    """Store many jobs in one transaction; with ``atomic``, all or none."""
    batch = call.body
    if not 1 <= len(batch.jobs) <= HTTP_BATCH_MAX:
        raise HttpError(f"a batch has 1 to {HTTP_BATCH_MAX:,} jobs, got {len(batch.jobs):,}")
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
    """Store jobs in one transaction, and return the outcome of each."""
    session, jobs = call.session, known.jobs
    if not jobs:
        return []
    try:
        carrying = session.carrying(jobs)
        enqueuing = session.store.queue.enqueue(carrying, atomic=atomic)
        replies = await session.store.run_async(enqueuing)
    except InvalidJobError as error:  # a dependency that cannot be, or a time too far away
        if atomic or len(jobs) == 1 or not any(map(_may_be_refused, jobs)):
            raise known.named(error) from None
        return await _store_apart(call, known)
    duplicates = [each for each in replies if isinstance(each, Duplicate)]
    if not duplicates:
        return [accepted(stored_job(reply)) for reply in replies]
    rejected = [each.job_id for each in duplicates if each.is_rejected]
    hidden = await afterwards(beyond(call, rejected))
    seen = await afterwards(comparable(call, (each.job_id for each in duplicates)))
    return [_answer(reply, hidden, seen - hidden) for reply in replies]


async def _store_apart(call: Call[Batch, Nothing], known: Disguised) -> list[Accepted | Refused]:
    """Store by itself each job that the store may refuse, and would refuse the batch for."""
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
    """Return whether only the store knows if a job can be stored: it has dependencies or a time."""
    return job.after is not None or job.run_at is not None


def _prepared(call: Call[Batch, Nothing], number: int, each: Submission) -> NewJob | Refused:
    """Return a job of a batch, or why it is refused; raise if the batch is atomic."""
    try:
        return prepare(call.session, each, call.principal)
    except (InvalidJobError, ForbiddenError) as error:
        if call.body.atomic:
            error.args = (f"job {number} of the batch: {error}",)
            raise
        return Refused(code=error.code, detail=str(error))


def _answer(reply: EnqueueReply, hidden: set[str], seen: set[str]) -> Accepted | Refused:
    if not isinstance(reply, Duplicate) or not reply.is_rejected:
        return accepted(stored_job(reply), seen)
    existing = None if reply.job_id in hidden else reply.job_id
    differs = reply.differs if reply.job_id in seen else ()
    error = DuplicateJobError(type=reply.type, key=reply.key, existing_id=existing, differs=differs)
    return Refused(
        code=error.code,
        detail=str(error),
        existing=existing or UNSET,
        differs=differs if reply.job_id in seen else UNSET,
    )


@submit_route(
    "POST /v1/events/{name}",
    "Send an event",
    {202: Sent},
    is_body_optional=True,
    errors="invalid_event invalid_payload payload_too_large invalid_key duplicate_key "
    "too_many_lanes",
)
async def send_event(call: Call[EventBody, Nothing]) -> Reply:
    """Record an event and a job for each handler that matches, all or none."""
    actions, body = call.actions.events, call.body
    key = None if body.key is None else check_foreign_key(body.key)
    on_duplicate = OnDuplicate(body.on_duplicate)
    event, jobs = await call.compute(
        lambda: actions.prepare(call.path["name"], key, body.payload, on_duplicate=on_duplicate)
    )
    jobs = [submitted_by(call.principal, job) for job in jobs]
    sent = await call.run(actions.record(event, jobs))
    made = await accepted_all(call, sent.jobs)
    return Reply(Sent(id=sent.id, name=sent.name, sent_at=sent.sent_at, jobs=made), 202)
