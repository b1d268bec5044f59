"""What can be asked of a job, and of many, once for both faces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fencepost.actions.script import Pause, Script
from fencepost.actions.session import Session
from fencepost.core.bounds import PAGE_MAX, POLL_INTERVAL
from fencepost.core.crypto.envelope import shown_text, unreadable
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.edits import Edits, check_names
from fencepost.core.job.history import Change
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Attempt, Body, Encoding, Job
from fencepost.core.job.lifecycle import LIVE, State
from fencepost.core.job.lifetime import check_run_at
from fencepost.core.job.priority import Priority, parse_priority
from fencepost.core.job.why import Reason, explain
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_correlation_id, check_tags, reserved_tags
from fencepost.core.values.payload import check_size, decode_result, encode
from fencepost.core.webhooks.settings import check_callback
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    StateConflictError,
    WaitTimeoutError,
)
from fencepost.store.interface.control import CancelReply, Edit, Edited, RetryRequest
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.replies import Conflict, Duplicate, Moved, NotFound, TooLate


def get(session: Session, job_id: str) -> Script[Job]:
    """Return the job, or raise JobNotFoundError."""
    (job,) = yield session.store.reader.get([job_id])
    if job is None:
        raise JobNotFoundError(job_id)
    found: Job = job
    return found


def result(session: Session, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]:
    """Wait until the job has ended, and return its result with the job."""
    seconds = None if timeout is None else parse_duration(timeout, name="timeout")
    job = yield from end(session, job_id, seconds)
    if not job.state.is_terminal:
        raise WaitTimeoutError(job_id, seconds or 0.0, job.state)
    return result_of(session, job), job


def end(
    session: Session,
    job_id: str,
    seconds: float | None,
    is_off: Callable[[], bool] = lambda: False,
) -> Script[Job]:
    """Wait until the job has ended, and return it; as it is, when the time is up or *is_off*."""
    deadline = None if seconds is None else session.clock.monotonic() + seconds
    # Listen before looking: news that comes between the two is then not missed.
    yield Pause(Topic.SETTLED, 0)
    while True:
        job = yield from get(session, job_id)
        if job.state.is_terminal:
            return job
        wait = POLL_INTERVAL
        if deadline is not None:
            wait = min(wait, deadline - session.clock.monotonic())
            if wait <= 0:
                return job
        if is_off():
            return job
        yield Pause(Topic.SETTLED, wait)


def no_result(job: Job) -> StateConflictError:
    """Return the error of a job whose result is asked for, and that has not completed."""
    more = "; wait for it" if not job.state.is_terminal else " and has none"
    return StateConflictError(f"job {job.id} is {job.state}{more}", job_id=job.id, state=job.state)


def result_of(session: Session, job: Job) -> Any:
    """Return the result of a job that has ended, or raise as its end says."""
    if job.state is State.COMPLETED:
        return _decode_result(session, job)
    if job.state is State.CANCELLED:
        raise JobCancelledError(job.id)
    failure = job.failure
    raise JobFailedError(
        job.id,
        category=failure.category if failure else "system",
        message=shown_text(failure.message) if failure else "no reason stored",
        failure_code=failure.code if failure else None,
    )


def _decode_result(session: Session, job: Job) -> Any:
    """Return the result as the task's annotation says, or as plain JSON if it does not fit."""
    body = job.result or Body(b"null")
    if body.encoding is Encoding.ENCRYPTED:
        raise unreadable(body, session.store.keys)
    task = session.tasks.get(job.type)
    return decode_result(body, Any if task is None else task.signature.return_type)


def cancel(session: Session, job_id: str) -> Script[State]:
    """Cancel one job, or raise."""
    (reply,) = yield session.store.control.cancel([job_id])
    return _moved(job_id, reply, "cancelled")


def _moved(job_id: str, reply: object, verb: str) -> State:
    match reply:
        case Moved(state=state):
            return state
        case NotFound():
            raise JobNotFoundError(job_id)
        case Conflict(_, state):
            raise StateConflictError(
                f"job {job_id} is {state} and cannot be {verb}", job_id=job_id, state=state
            )
        case Duplicate(existing_id, type_, key):
            raise DuplicateJobError(type=type_, key=key, existing_id=existing_id)
        case _:
            raise AssertionError(reply)


def check_selective(filter: JobFilter) -> None:
    """Raise ConfigurationError if *filter* means all jobs there are."""
    if filter == JobFilter():
        raise ConfigurationError(
            "this would cancel every job; name an id, a type, a queue, a flow, a tag or a time"
        )


def live_part(filter: JobFilter) -> JobFilter | None:
    """Return *filter* as it means live jobs alone; None if it means none of them."""
    states = tuple(s for s in State if s in LIVE and (not filter.states or s in filter.states))
    return msgspec.structs.replace(filter, states=states) if states else None


def cancel_all(
    session: Session, filter: JobFilter, *, queues: Collection[str] | None = None
) -> Script[int]:
    """Cancel every live job that meets *filter*; return how many, those that waited included.

    What waits for one of them cannot run any more, whatever queue it is in; with *queues*, only
    those of these are counted.
    """
    check_selective(filter)
    live = live_part(filter)
    if live is None:
        return 0
    cancelled: set[str] = set()
    position: int | None = None
    while True:
        page = yield session.store.reader.find(live, PageRequest(PAGE_MAX, position))
        if page.jobs:
            replies = yield session.store.control.cancel([job.id for job in page.jobs])
            cancelled.update(_cancelled(replies))
        position = page.next
        if position is None:
            return (yield from _count_within(session, sorted(cancelled), queues))


def _count_within(
    session: Session, job_ids: Sequence[str], queues: Collection[str] | None
) -> Script[int]:
    """Return how many of these jobs are in *queues*; None means all."""
    if queues is None:
        return len(job_ids)
    count = 0
    for start in range(0, len(job_ids), PAGE_MAX):
        located = yield session.store.reader.locate(job_ids[start : start + PAGE_MAX])
        count += sum(queue in queues for queue in located)
    return count


def _cancelled(replies: Sequence[CancelReply]) -> Iterator[str]:
    """Yield the ids of those that were cancelled, and of those that waited for them."""
    for reply in replies:
        if isinstance(reply, Moved):
            yield reply.job_id
            yield from (each.job_id for each in reply.followed if each.state is State.CANCELLED)


def retry(
    session: Session,
    job_id: str,
    reset_attempts: bool,
    delay: Duration,
    priority: Priority | int | str | None,
) -> Script[State]:
    """Run a job again, or one that waits for its time sooner, or raise (C36, C45)."""
    request = RetryRequest(
        job_id,
        bool(reset_attempts),
        parse_duration(delay, name="delay"),
        None if priority is None else parse_priority(priority),
    )
    (reply,) = yield session.store.control.retry([request])
    if isinstance(reply, Conflict) and reply.culprit is not None:
        job = yield from get(session, job_id)
        raise held_up(job_id, reply, job.flow)
    if isinstance(reply, Conflict):
        why = _NOT_RETRIED[reply.state]
        raise StateConflictError(
            f"job {job_id} is {reply.state} and cannot be retried: {why}",
            job_id=job_id,
            state=reply.state,
        )
    if isinstance(reply, TooLate):
        raise _too_late(job_id, reply)
    return _moved(job_id, reply, "retried")


_NOT_RETRIED = {
    State.PENDING: "it waits for other jobs or for its concurrency key; ask why",
    State.SCHEDULED: "it stands in line already, and starts as soon as a worker is free for it",
    State.RUNNING: "an attempt is under way; wait for its end, or cancel it first",
    State.COMPLETED: "a job that has succeeded never runs again; submit a new one",
}


def held_up(job_id: str, reply: Conflict, flow: str | None) -> StateConflictError:
    """Return the error of a job that cannot run before another has run again."""
    whole = "" if flow is None else f", or everything with app.flows.get({flow!r}).retry()"
    return StateConflictError(
        f"job {job_id} waits for job {reply.culprit}, which is {reply.state}; retry that one "
        f"first{whole}",
        job_id=job_id,
        state=reply.state,
        culprit=reply.culprit,
    )


def edit(session: Session, job_id: str, edits: Edits) -> Script[Job]:
    """Change what a user may change, or raise."""
    check_names(edits)
    priority, run_at = edits.get("priority"), edits.get("run_at")
    job = yield from get(session, job_id)
    _check_unchanged(job, edits)
    tags = edits.get("tags")
    url, correlation_id = edits.get("callback_url"), edits.get("correlation_id")
    request = Edit(
        job_id,
        None if priority is None else parse_priority(priority),
        None if tags is None else _new_tags(job, tags),
        None if run_at is None else check_run_at(run_at),
        _new_payload(session, job, edits.get("payload")),
        check_correlation_id(correlation_id) if correlation_id else correlation_id,
        check_callback(url, session.webhooks) if url else url,
    )
    (reply,) = yield session.store.control.edit([request])
    if isinstance(reply, Edited):
        return reply.job
    if isinstance(reply, TooLate):
        raise _too_late(job_id, reply)
    _moved(job_id, reply, "edited")
    raise AssertionError(reply)


def _check_unchanged(job: Job, edits: Edits) -> None:
    """Raise StateConflictError if another type or queue is asked for (C46)."""
    for name, given, own in (
        ("type", edits.get("type"), job.type),
        ("queue", edits.get("queue"), job.queue),
    ):
        if given is not None and given != own:
            raise StateConflictError(
                f"the {name} of a job cannot be changed, since its keys and its place in line hang "
                f"on it; submit a new job and cancel {job.id}",
                job_id=job.id,
                state=job.state,
            )


def _new_payload(session: Session, job: Job, payload: Any) -> Body | None:
    """Return a payload as it would be submitted, checked against the task if it is known here."""
    if payload is None:
        return None
    body = payload if isinstance(payload, Body) else encode(payload)
    check_size(body, session.max_payload)
    task = session.tasks.get(job.type)
    if task is not None:
        task.signature.decode(body)
    return body


def _too_late(job_id: str, reply: TooLate) -> InvalidJobError:
    return InvalidJobError(
        f"job {job_id} would fall due when its lifetime is over, at "
        f"{reply.expires_at.isoformat()}, so it could never run; give an earlier time"
    )


def _new_tags(job: Job, tags: Mapping[str, str]) -> dict[str, str]:
    """Return *tags* and those that Fencepost has set, which may be given again and not changed."""
    checked = check_tags(tags, may_be_reserved=True)
    kept = reserved_tags(job.tags)
    given = reserved_tags(checked)
    check_tags({name: value for name, value in given.items() if kept.get(name) != value})
    return checked | kept


def why(session: Session, job_id: str) -> Script[list[Reason]]:
    """Explain where the job is, or raise JobNotFoundError."""
    situation = yield session.store.reader.situation(job_id)
    if situation is None:
        raise JobNotFoundError(job_id)
    return explain(situation)


def attempts(session: Session, job_id: str) -> Script[list[Attempt]]:
    """Return the job's attempts, or raise JobNotFoundError."""
    found = yield session.store.reader.attempts(job_id)
    if found is None:
        raise JobNotFoundError(job_id)
    every: list[Attempt] = found
    return every


def history(session: Session, job_id: str) -> Script[list[Change]]:
    """Return the states that the job has been in, or raise JobNotFoundError."""
    job = yield from get(session, job_id)
    return changes(job, (yield from attempts(session, job_id)))
