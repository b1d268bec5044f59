"""Jobs of an app's store: find, wait for, cancel, retry, edit and explain them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import Pause, StoreActions
from fencepost.actions.options import RetryChoice
from fencepost.actions.replies import Page, failure_of_end
from fencepost.core.bounds import PAGE_MAX, POLL_INTERVAL
from fencepost.core.encryption import unreadable
from fencepost.core.filter import JobFilter, PageRequest, encode_cursor, make_page
from fencepost.core.job.history import Change
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Attempt, Body, Encoding, Job
from fencepost.core.job.lifecycle import LIVE, Edits, State, check_names
from fencepost.core.job.policy import parse_priority
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.job.why import Reason, explain
from fencepost.core.values.names import check_correlation_id, check_tags, reserved_tags
from fencepost.core.values.payload import check_size, decode_result, encode
from fencepost.core.values.times import Duration, parse_duration
from fencepost.core.webhooks.callback import check_callback
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    InvalidJobError,
    JobNotFoundError,
    StateConflictError,
    WaitTimeoutError,
)
from fencepost.store.interface.control import (
    CancelReply,
    Conflict,
    Edit,
    Edited,
    NotFound,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Duplicate, Moved
from fencepost.store.interface.store import Topic


class LocalJobs(StoreActions):
    """The jobs of an app's store."""

    def get(self, job_id: str) -> Script[Job]:
        """Return the job, or raise JobNotFoundError."""
        (job,) = yield self._store.reader.get([job_id])
        if job is None:
            raise JobNotFoundError(job_id)
        found: Job = job
        return found

    def existing(self, error: DuplicateJobError) -> Script[Job | None]:
        """Return the job that holds the key, if it still exists."""
        assert error.existing_id is not None
        (job,) = yield self._store.reader.get([error.existing_id])
        held: Job | None = job
        return held

    def find(self, filter: JobFilter, after: str | None, limit: int) -> Script[Page[Job]]:
        """Return a page of jobs."""
        listing = self._store.jobs_listing
        asked = make_page(limit=limit, after=after, of=listing)
        page = yield self._store.reader.find(filter, asked)
        return Page(page.jobs, None if page.next is None else encode_cursor(page.next, listing))

    def count(self, filter: JobFilter) -> Script[int]:
        """Count the jobs that meet *filter*."""
        total: int = yield self._store.reader.count(filter)
        return total

    def result(self, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]:
        """Wait until the job has ended, and return its result with the job."""
        seconds = None if timeout is None else parse_duration(timeout, name="timeout")
        job = yield from self.end(job_id, seconds)
        if not job.state.is_terminal:
            raise WaitTimeoutError(job_id, seconds or 0.0, job.state)
        return self.result_of(job), job

    def end(
        self,
        job_id: str,
        seconds: float | None,
        is_off: Callable[[], bool] = lambda: False,
    ) -> Script[Job]:
        """Wait until the job has ended, the time is up or *is_off*; return it as it is then."""
        deadline = None if seconds is None else self._session.clock.monotonic() + seconds
        # Listen first, then look: a notification between the two is then not missed.
        yield Pause(Topic.SETTLED, 0)
        while True:
            job = yield from self.get(job_id)
            if job.state.is_terminal:
                return job
            wait = POLL_INTERVAL
            if deadline is not None:
                wait = min(wait, deadline - self._session.clock.monotonic())
                if wait <= 0:
                    return job
            if is_off():
                return job
            yield Pause(Topic.SETTLED, wait)

    def result_of(self, job: Job) -> Any:
        """Return the result of a job that has ended, or raise the error of its failure.

        Its type is the task's return annotation, or plain JSON if it does not fit.
        """
        if job.state is not State.COMPLETED:
            raise failure_of_end(job)
        body = job.result_body or Body(b"null")
        if body.encoding is Encoding.ENCRYPTED:
            raise unreadable(body, self._store.keys)
        task = self._session.tasks.get(job.type)
        return decode_result(body, Any if task is None else task.signature.return_type)

    def cancel(self, job_id: str) -> Script[State]:
        """Cancel one job, or raise."""
        (reply,) = yield self._store.control.cancel([job_id])
        return _moved(job_id, reply, "cancelled")

    def cancel_all(
        self, filter: JobFilter, *, queues: Collection[str] | None = None
    ) -> Script[int]:
        """Cancel every live job that meets *filter*; return how many, including dependents.

        Dependents can no longer run and are cancelled in any queue; with *queues*, only jobs in
        these are counted.
        """
        check_selective(filter)
        live = live_part(filter)
        if live is None:
            return 0
        cancelled: set[str] = set()
        position: int | None = None
        while True:
            page = yield self._store.reader.find(live, PageRequest(PAGE_MAX, position))
            if page.jobs:
                replies = yield self._store.control.cancel([job.id for job in page.jobs])
                cancelled.update(_cancelled(replies))
            position = page.next
            if position is None:
                return (yield from self._count_within(sorted(cancelled), queues))

    def _count_within(self, job_ids: Sequence[str], queues: Collection[str] | None) -> Script[int]:
        """Return how many of these jobs are in *queues*; None means all."""
        if queues is None:
            return len(job_ids)
        count = 0
        for start in range(0, len(job_ids), PAGE_MAX):
            located = yield self._store.reader.locate(job_ids[start : start + PAGE_MAX])
            count += sum(queue in queues for queue in located)
        return count

    def retry(self, job_id: str, choice: RetryChoice) -> Script[State]:
        """Run an ended job again, or a delayed one sooner, or raise (C36, C45)."""
        request = RetryRequest(job_id, choice.reset_attempts, choice.delay, choice.priority)
        (reply,) = yield self._store.control.retry([request])
        if isinstance(reply, Conflict) and reply.failed_dependency is not None:
            job = yield from self.get(job_id)
            raise blocked_by(job_id, reply, job.flow)
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

    def cancel_some(
        self, job_ids: Sequence[str], *, queues: Collection[str] | None = None
    ) -> Script[int]:
        """Cancel these jobs, if they are live; return how many, as ``cancel_all`` does."""
        cancelled: set[str] = set()
        for start in range(0, len(job_ids), PAGE_MAX):
            replies = yield self._store.control.cancel(job_ids[start : start + PAGE_MAX])
            cancelled.update(_cancelled(replies))
        return (yield from self._count_within(sorted(cancelled), queues))

    def retry_some(self, job_ids: Sequence[str], choice: RetryChoice) -> Script[int]:
        """Run these jobs again, the oldest first as they are given; return how many are.

        One stays as it is if its state or its key forbids it, or it waits for one that has failed.
        """
        count = 0
        for start in range(0, len(job_ids), PAGE_MAX):
            replies = yield self._store.control.retry(
                [
                    RetryRequest(job_id, choice.reset_attempts, choice.delay, choice.priority)
                    for job_id in job_ids[start : start + PAGE_MAX]
                ]
            )
            count += sum(isinstance(reply, Moved) for reply in replies)
        return count

    def ids_of(self, filter: JobFilter, limit: int) -> Script[list[str]]:
        """Return the ids of the jobs that meet *filter*, the oldest first; at most *limit*."""
        found: list[str] = []
        position: int | None = None
        while len(found) < limit:
            size = min(PAGE_MAX, limit - len(found))
            page = yield self._store.reader.find(filter, PageRequest(size, position))
            found += [job.id for job in page.jobs]
            position = page.next
            if position is None:
                break
        return found[::-1]

    def edit(self, job_id: str, edits: Edits) -> Script[Job]:
        """Change what a user may change, or raise."""
        check_names(edits)
        priority, run_at = edits.get("priority"), edits.get("run_at")
        job = yield from self.get(job_id)
        _check_unchanged(job, edits)
        tags = edits.get("tags")
        url, correlation_id = edits.get("callback_url"), edits.get("correlation_id")
        request = Edit(
            job_id,
            None if priority is None else parse_priority(priority),
            None if tags is None else _new_tags(job, tags),
            None if run_at is None else check_run_at(run_at),
            self._new_payload(job, edits.get("payload")),
            check_correlation_id(correlation_id) if correlation_id else correlation_id,
            check_callback(url, self._session.webhooks) if url else url,
        )
        (reply,) = yield self._store.control.edit([request])
        if isinstance(reply, Edited):
            return reply.job
        if isinstance(reply, TooLate):
            raise _too_late(job_id, reply)
        _moved(job_id, reply, "edited")
        raise AssertionError(reply)

    def _new_payload(self, job: Job, payload: Any) -> Body | None:
        """Return the encoded payload, checked against its task if this app knows it."""
        if payload is None:
            return None
        body = payload if isinstance(payload, Body) else encode(payload)
        check_size(body, self._session.max_payload)
        task = self._session.tasks.get(job.type)
        if task is not None:
            task.signature.decode(body)
        return body

    def why(self, job_id: str) -> Script[list[Reason]]:
        """Explain where the job is, or raise JobNotFoundError."""
        situation = yield self._store.reader.situation(job_id)
        if situation is None:
            raise JobNotFoundError(job_id)
        return explain(situation)

    def attempts(self, job_id: str) -> Script[list[Attempt]]:
        """Return the job's attempts, or raise JobNotFoundError."""
        found = yield self._store.reader.attempts(job_id)
        if found is None:
            raise JobNotFoundError(job_id)
        every: list[Attempt] = found
        return every

    def history(self, job_id: str) -> Script[list[Change]]:
        """Return the states that the job has been in, or raise JobNotFoundError."""
        job = yield from self.get(job_id)
        return changes(job, (yield from self.attempts(job_id)))


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
    """Raise ConfigurationError if *filter* matches every job."""
    if filter == JobFilter():
        raise ConfigurationError(
            "this would cancel every job; name an id, a type, a queue, a flow, a tag or a time"
        )


RETRIED = (State.FAILED, State.DEAD_LETTER, State.CANCELLED)
RETRIED_IF_NAMED = (*RETRIED, State.DELAYED, State.RETRYING)


def retried_part(filter: JobFilter) -> JobFilter | None:
    """Return *filter* restricted to jobs that a retry applies to; None if it matches none."""
    named = tuple(state for state in RETRIED_IF_NAMED if state in filter.states)
    states = named if filter.states else RETRIED
    return msgspec.structs.replace(filter, states=states) if states else None


def live_part(filter: JobFilter) -> JobFilter | None:
    """Return *filter* restricted to live jobs; None if it matches none of them."""
    states = tuple(s for s in State if s in LIVE and (not filter.states or s in filter.states))
    return msgspec.structs.replace(filter, states=states) if states else None


def _cancelled(replies: Sequence[CancelReply]) -> Iterator[str]:
    """Yield the ids of the cancelled jobs and of their cancelled dependents."""
    for reply in replies:
        if isinstance(reply, Moved):
            yield reply.job_id
            yield from (each.job_id for each in reply.followed if each.state is State.CANCELLED)


_NOT_RETRIED = {
    State.PENDING: "it waits for other jobs or for its concurrency key; why() says which",
    State.SCHEDULED: "it is queued already, and starts as soon as a worker has a free slot",
    State.RUNNING: "an attempt is running; wait for its end, or cancel it first",
    State.COMPLETED: "a job that has succeeded never runs again; submit a new one",
}


def blocked_by(job_id: str, reply: Conflict, flow: str | None) -> StateConflictError:
    """Return the error for a job that cannot run before another has run again."""
    whole = "" if flow is None else f", or everything with app.flows.get({flow!r}).retry()"
    return StateConflictError(
        f"job {job_id} waits for job {reply.failed_dependency}, which is {reply.state}; "
        f"retry that one first{whole}",
        job_id=job_id,
        state=reply.state,
        failed_dependency=reply.failed_dependency,
    )


def _check_unchanged(job: Job, edits: Edits) -> None:
    """Raise StateConflictError if the edits change type or queue (C46)."""
    for name, given, own in (
        ("type", edits.get("type"), job.type),
        ("queue", edits.get("queue"), job.queue),
    ):
        if given is not None and given != own:
            raise StateConflictError(
                f"the {name} of a job cannot be changed, because its keys and its order depend on "
                f"it; submit a new job and cancel {job.id}",
                job_id=job.id,
                state=job.state,
            )


def _too_late(job_id: str, reply: TooLate) -> InvalidJobError:
    return InvalidJobError(
        f"job {job_id} would fall due when its lifetime is over, at "
        f"{reply.expires_at.isoformat()}, so it could never run; give an earlier time"
    )


def _new_tags(job: Job, tags: Mapping[str, str]) -> dict[str, str]:
    """Return *tags* and those set by Fencepost, which may be repeated but not changed."""
    checked = check_tags(tags, may_be_reserved=True)
    kept = reserved_tags(job.tags)
    given = reserved_tags(checked)
    check_tags({name: value for name, value in given.items() if kept.get(name) != value})
    return checked | kept
