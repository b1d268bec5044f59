"""What can be asked of the jobs of a server, one or many."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import msgspec

from fencepost.actions.pages import Page
from fencepost.actions.results import failure_of_end
from fencepost.actions.script import Script
from fencepost.client.exchange import JOBS, Request, ServerActions, get, path, post, query_of
from fencepost.core.bounds import HTTP_WAIT_DEFAULT
from fencepost.core.filter import JobFilter
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
    ConfigurationError,
    DuplicateJobError,
    EncryptionError,
    FencepostError,
    ForbiddenError,
    WaitTimeoutError,
)
from fencepost.wire.jobs import JobPage, JobSummary, JobView, job_of


class RemoteJobs(ServerActions):
    """The jobs of a server."""

    def get(self, job_id: str) -> Script[Job]:
        """Return all there is to see of a job, or raise JobNotFoundError."""
        return job_of((yield from self._session.read(get(*_of(job_id)), JobView)))

    def existing(self, error: DuplicateJobError) -> Script[Job | None]:
        """Return the job that holds the key; None if it is gone, or out of this token's reach."""
        assert error.existing_id is not None
        try:
            job = yield from self.get(error.existing_id)
        except FencepostError:
            return None
        error.type, error.key = job.type, job.key or ""
        return job

    def result(self, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]:
        """Wait until the job has ended, and return its result with the job."""
        seconds = None if timeout is None else parse_duration(timeout, name="timeout")
        clock = self._session.clock
        deadline = None if seconds is None else clock.monotonic() + seconds
        while True:
            wait = HTTP_WAIT_DEFAULT
            if deadline is not None:
                wait = min(wait, max(deadline - clock.monotonic(), 0.0))
            request = get(*_of(job_id, "wait"), query=query_of(timeout=f"{wait:.3f}"), wait=wait)
            view = yield from self._session.read(request, JobView)
            job = job_of(view)
            if job.state.is_terminal:
                if view.withheld is True:
                    raise _withheld(job)
                return _result_of(job), job
            if deadline is not None and deadline <= clock.monotonic():
                raise WaitTimeoutError(job_id, seconds or 0.0, job.state)

    def find(self, filter: JobFilter, after: str | None, limit: int) -> Script[Page[JobSummary]]:
        """Return a page of jobs."""
        query = (*_query(filter), *query_of(after=after, limit=limit))
        page = yield from self._session.read(get(JOBS, query=query), JobPage)
        return Page(page.jobs, page.next)

    def count(self, filter: JobFilter) -> Script[int]:
        """Count the jobs of a state, a type and a queue."""
        if not filter.is_countable:
            raise ConfigurationError("a server counts jobs by state, type and queue alone")
        return self._session.read(get(JOBS, "count", query=_query(filter)), int, "count")

    def cancel(self, job_id: str) -> Script[State]:
        """Cancel one job, or raise."""
        return (yield from self._session.read(post(*_of(job_id, "cancel")), JobSummary)).state

    def cancel_all(self, filter: JobFilter) -> Script[int]:
        """Cancel every live job that meets *filter*; return how many."""
        return self._session.read(post(JOBS, "cancel", body=_conditions(filter)), int, "count")

    def retry(
        self,
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
        request = post(*_of(job_id, "retry"), body=body)
        return (yield from self._session.read(request, JobSummary)).state

    def edit(self, job_id: str, edits: Edits) -> Script[JobSummary]:
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
        request = Request("PATCH", path(*_of(job_id)), body=msgspec.json.encode(body))
        return self._session.read(request, JobSummary)

    def why(self, job_id: str) -> Script[list[Reason]]:
        """Explain where the job is, or raise JobNotFoundError."""
        return self._session.read(get(*_of(job_id, "why")), list[Reason], "reasons")

    def attempts(self, job_id: str) -> Script[list[Attempt]]:
        """Return the job's attempts, or raise JobNotFoundError."""
        return self._session.read(get(*_of(job_id, "attempts")), list[Attempt], "attempts")

    def history(self, job_id: str) -> Script[list[Change]]:
        """Return the states that the job has been in, or raise JobNotFoundError."""
        return self._session.read(get(*_of(job_id, "history")), list[Change], "history")


def _of(job_id: str, *rest: str) -> tuple[str, ...]:
    """Return the parts of a job's path; what is no id is a job that does not exist."""
    id_bytes(job_id)
    return (JOBS, job_id, *rest)


def _withheld(job: Job) -> ForbiddenError:
    """Return the error of one who may know how a job stands, and not what it came to."""
    return ForbiddenError(
        f"job {job.id} is {job.state}; what it came to is shown to the token that submitted it, "
        f"and with the role read"
    )


def _result_of(job: Job) -> Any:
    """Return the result of a job that has ended, or raise as its end says."""
    if job.state is not State.COMPLETED:
        raise failure_of_end(job)
    body = job.result or NULL
    if body.encoding is Encoding.ENCRYPTED:
        raise EncryptionError(f"the result of job {job.id} is {body.data.decode()}")
    return decode(body)


def _conditions(filter: JobFilter) -> dict[str, Any]:
    """Return the conditions of *filter* as a body has them."""
    fields = {"state": filter.states, **msgspec.structs.asdict(filter)}
    del fields["states"]
    return {name: value for name, value in fields.items() if value}


def _query(filter: JobFilter) -> tuple[tuple[str, str], ...]:
    """Return the conditions of *filter* as a query has them."""
    fields = _conditions(filter)
    states = tuple(("state", str(state)) for state in fields.pop("state", ()))
    tags = tuple(
        # The first colon ends the name.
        ("tag", f"{quote(name, safe=' /')}:{value}")
        for name, value in fields.pop("tags", {}).items()
    )
    for name in ("created_after", "created_before"):
        if name in fields:
            fields[name] = fields[name].isoformat()
    return states + tags + query_of(**fields)


def _payload(value: Any) -> dict[str, Any]:
    body = encode(value)
    if body.encoding is Encoding.BINARY:
        return {"payload_base64": base64.b64encode(body.data).decode()}
    return {"payload": msgspec.Raw(body.data)}
