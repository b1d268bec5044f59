"""What can be asked of a job, and of many, over HTTP; once for both faces."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from fencepost.client.exchange import Request, Script, get, path, post, query_of
from fencepost.client.session import Session
from fencepost.core.bounds import HTTP_WAIT_DEFAULT
from fencepost.core.filter import Conditions, States
from fencepost.core.job.edits import Edits, check_names
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Encoding, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority, parse_priority
from fencepost.core.job.why import Reason
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.ids import id_bytes
from fencepost.core.values.instants import check_instant
from fencepost.core.values.payload import NULL, decode, encode
from fencepost.errors import (
    EncryptionError,
    ForbiddenError,
    JobCancelledError,
    JobFailedError,
    WaitTimeoutError,
)
from fencepost.wire.jobs import JobSummary, JobView, job_of

JOBS = "/v1/jobs"


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest first, and the cursor of the page after; iterates over its jobs.

    They come without payload and result, for which there is ``client.jobs.get(id).refresh()``.
    """

    jobs: list[JobSummary]
    next: str | None = None

    def __iter__(self) -> Iterator[JobSummary]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


def of_job(job_id: str, *rest: str) -> tuple[str, ...]:
    """Return the parts of a job's path; what is no id is a job that does not exist."""
    id_bytes(job_id)
    return (JOBS, job_id, *rest)


def look(session: Session, job_id: str) -> Script[Job]:
    """Return all there is to see of a job, or raise JobNotFoundError."""
    return job_of((yield from session.read(get(*of_job(job_id)), JobView)))


def result(session: Session, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]:
    """Wait until the job has ended, and return its result with the job."""
    seconds = None if timeout is None else parse_duration(timeout, name="timeout")
    deadline = None if seconds is None else session.clock.monotonic() + seconds
    while True:
        wait = HTTP_WAIT_DEFAULT
        if deadline is not None:
            wait = min(wait, max(deadline - session.clock.monotonic(), 0.0))
        request = get(*of_job(job_id, "wait"), query=query_of(timeout=f"{wait:.3f}"), wait=wait)
        view = yield from session.read(request, JobView)
        job = job_of(view)
        if job.state.is_terminal:
            if view.withheld is True:
                raise _withheld(job)
            return result_of(job), job
        if deadline is not None and deadline <= session.clock.monotonic():
            raise WaitTimeoutError(job_id, seconds or 0.0, job.state)


def _withheld(job: Job) -> ForbiddenError:
    """Return the error of one who may know how a job stands, and not what it came to."""
    return ForbiddenError(
        f"job {job.id} is {job.state}; what it came to is shown to the token that submitted it, "
        f"and with the role read"
    )


def result_of(job: Job) -> Any:
    """Return the result of a job that has ended, or raise as its end says."""
    if job.state is State.COMPLETED:
        body = job.result or NULL
        if body.encoding is Encoding.ENCRYPTED:
            raise EncryptionError(f"the result of job {job.id} is {body.data.decode()}")
        return decode(body)
    if job.state is State.CANCELLED:
        raise JobCancelledError(job.id)
    failure = job.failure
    raise JobFailedError(
        job.id,
        category=failure.category if failure else "system",
        message=failure.message if failure else "no reason stored",
        failure_code=failure.code if failure else None,
    )


def find(session: Session, after: str | None, limit: int, conditions: Conditions) -> Script[Page]:
    """Return a page of jobs."""
    query = (*_query(conditions), *query_of(after=after, limit=limit))
    return (yield from session.read(get(JOBS, query=query), Page))


def count(session: Session, state: States, type: str | None, queue: str | None) -> Script[int]:
    """Count the jobs of a state, a type and a queue."""
    query = _query(Conditions(state=state, type=type, queue=queue))
    return (yield from session.read(get(JOBS, "count", query=query), int, "count"))


def _query(conditions: Conditions) -> tuple[tuple[str, str], ...]:
    """Return the conditions as a query has them."""
    fields = selection(conditions)
    states = tuple(("state", state) for state in fields.pop("state", ()))
    tags = tuple(
        # The first colon ends the name.
        ("tag", f"{quote(name, safe=' /')}:{value}")
        for name, value in fields.pop("tags", {}).items()
    )
    return states + tags + query_of(**fields)


def selection(conditions: Conditions) -> dict[str, Any]:
    """Return the conditions as a body has them."""
    fields: dict[str, Any] = {k: v for k, v in conditions.items() if v is not None}
    if "state" in fields:
        states = fields["state"]
        fields["state"] = [str(s) for s in ([states] if isinstance(states, str) else states)]
    if "tags" in fields:
        fields["tags"] = dict(fields["tags"])
    for name in ("created_after", "created_before"):
        if name in fields:
            fields[name] = check_instant(fields[name], name=name).isoformat()
    return fields


def cancel(session: Session, job_id: str) -> Script[State]:
    """Cancel one job, or raise."""
    summary = yield from session.read(post(*of_job(job_id, "cancel")), JobSummary)
    return summary.state


def cancel_some(session: Session, job_id: str | None, conditions: Conditions) -> Script[int]:
    """Cancel one job by id, or all that meet the conditions; return how many."""
    if job_id is not None:
        yield from cancel(session, job_id)
        return 1
    request = post(JOBS, "cancel", body=selection(conditions))
    return (yield from session.read(request, int, "count"))


def retry(
    session: Session,
    job_id: str,
    reset_attempts: bool,
    delay: Duration,
    priority: Priority | int | str | None,
) -> Script[State]:
    """Run a terminal job again, or raise."""
    body = {
        "reset_attempts": bool(reset_attempts),
        "delay": parse_duration(delay, name="delay"),
        "priority": None if priority is None else int(parse_priority(priority)),
    }
    summary = yield from session.read(post(*of_job(job_id, "retry"), body=body), JobSummary)
    return summary.state


def edit(session: Session, job_id: str, edits: Edits) -> Script[JobSummary]:
    """Change what a user may change, or raise."""
    check_names(edits)
    body: dict[str, Any] = {name: value for name, value in edits.items() if value is not None}
    if "priority" in body:
        body["priority"] = int(parse_priority(body["priority"]))
    if "tags" in body:
        body["tags"] = dict(body["tags"])
    if "run_at" in body:
        body["run_at"] = check_instant(body["run_at"], name="run_at")
    if "payload" in body:
        body |= _payload(body.pop("payload"))
    request = Request("PATCH", path(*of_job(job_id)), body=msgspec.json.encode(body))
    return (yield from session.read(request, JobSummary))


def _payload(value: Any) -> dict[str, Any]:
    body = encode(value)
    if body.encoding is Encoding.BINARY:
        return {"payload_base64": base64.b64encode(body.data).decode()}
    return {"payload": msgspec.Raw(body.data)}


def why(session: Session, job_id: str) -> Script[list[Reason]]:
    """Explain where the job is, or raise JobNotFoundError."""
    return (yield from session.read(get(*of_job(job_id, "why")), list[Reason], "reasons"))


def attempts(session: Session, job_id: str) -> Script[list[Attempt]]:
    """Return the job's attempts, or raise JobNotFoundError."""
    return (yield from session.read(get(*of_job(job_id, "attempts")), list[Attempt], "attempts"))


def history(session: Session, job_id: str) -> Script[list[Change]]:
    """Return the states that the job has been in, or raise JobNotFoundError."""
    return (yield from session.read(get(*of_job(job_id, "history")), list[Change], "history"))
