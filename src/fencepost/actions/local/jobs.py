"""Jobs of an app's store: find, wait for, cancel, retry, edit and explain them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from fencepost.actions.backend import Script
from fencepost.actions.local import look
from fencepost.actions.local.bulk import ManyJobs
from fencepost.actions.local.steps import Pause
from fencepost.actions.options import RetryChoice
from fencepost.actions.replies import BoundedCount, Page, failure_of_end
from fencepost.core.bounds import LOOK_MAX, POLL_INTERVAL
from fencepost.core.encryption import unreadable
from fencepost.core.filter import JobQuery, PageRequest, encode_cursor, make_page
from fencepost.core.job.history import Change
from fencepost.core.job.history import history as changes
from fencepost.core.job.job import Attempt, Body, Encoding, Job
from fencepost.core.job.lifecycle import Edits, State, check_names
from fencepost.core.job.policy import parse_priority
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.job.why import Reason, explain
from fencepost.core.values.names import check_correlation_id, check_tags, reserved_tags
from fencepost.core.values.payload import check_size, decode_result, encode
from fencepost.core.values.times import Duration, parse_duration
from fencepost.core.webhooks.callback import check_callback
from fencepost.errors import (
    DuplicateJobError,
    InvalidJobError,
    JobNotFoundError,
    StateConflictError,
    WaitTimeoutError,
)
from fencepost.store.interface.control import (
    Conflict,
    Edit,
    Edited,
    NotFound,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Duplicate, Moved
from fencepost.store.interface.store import Topic


class LocalJobs(ManyJobs):
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

    def find(
        self,
        query: JobQuery,
        after: str | None,
        limit: int,
        *,
        is_oldest_first: bool = False,
        bound: int | None = None,
        on_read: Callable[[int], None] = lambda _: None,
    ) -> Script[Page[Job]]:
        """Return a page of jobs; for conditions without an index, *bound* are read."""
        listing = self._store.jobs_listing
        asked = make_page(limit=limit, after=after, of=listing)
        asked = replace(asked, is_oldest_first=is_oldest_first)
        page = yield from look.find(self._store, query, asked, bound=bound, on_read=on_read)
        cursor = None if page.next is None else encode_cursor(page.next, listing)
        return Page(page.jobs, cursor, page.looked, page.unreadable)

    def count(self, query: JobQuery, at_most: int | None = None) -> Script[BoundedCount]:
        """Count the jobs that meet *query*, up to *at_most*; or among the newest LOOK_MAX."""
        if query.look.is_any:
            limit = None if at_most is None or query.filter.is_countable else at_most + 1
            total: int = yield self._store.reader.count(query.filter, limit)
            is_exact = limit is None or total < limit
            return BoundedCount(total if is_exact else total - 1, is_exact=is_exact)
        page = yield from look.find(self._store, query, PageRequest(LOOK_MAX))
        return BoundedCount(len(page.jobs), page.next is None, page.looked, page.unreadable)

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
