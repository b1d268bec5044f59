"""Jobs and flows of a server: submit flows, find jobs, wait for, cancel, retry and explain them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from fencepost.actions.backend import Ids, Script
from fencepost.actions.options import RetryChoice
from fencepost.actions.replies import (
    BoundedCount,
    EditCount,
    FlowList,
    Page,
    StoredFlow,
    failure_of_end,
)
from fencepost.client.submissions import check_batch
from fencepost.client.transport import (
    FLOWS,
    JOBS,
    Request,
    ServerActions,
    get,
    path,
    post,
    query_of,
)
from fencepost.core.display import shown
from fencepost.core.filter import JobQuery
from fencepost.core.flows.listing import FlowKind
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Encoding, Job
from fencepost.core.job.lifecycle import Edits, ManyEdits, State, check_names
from fencepost.core.job.policy import parse_priority
from fencepost.core.job.why import Reason
from fencepost.core.values.names import id_bytes
from fencepost.core.values.payload import NULL, decode, encode
from fencepost.core.values.times import Duration, check_instant, parse_duration
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    EmptyFlowError,
    EncryptionError,
    FencepostError,
    FlowNotFoundError,
    ForbiddenError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    WaitTimeoutError,
)
from fencepost.wire.bounds import HTTP_WAIT_DEFAULT
from fencepost.wire.control import EditedJobs, JobCount
from fencepost.wire.flows import FlowView, SubmittedFlow, WireFlowPage
from fencepost.wire.jobs import JobSummary, JobView, Submission, WireJobPage, job_of

Nodes = Mapping[str, Submission]


class RemoteJobs(ServerActions):
    """The jobs of a server."""

    def get(self, job_id: str) -> Script[Job]:
        return job_of((yield from self._session.read(get(*_of(job_id)), JobView)))

    def existing(self, error: DuplicateJobError) -> Script[Job | None]:
        """Return the job that holds the key; None if it is gone, or this token may not see it."""
        assert error.existing_id is not None
        try:
            job = yield from self.get(error.existing_id)
        except FencepostError:
            return None
        error.type, error.key = job.type, job.key or ""
        return job

    def result(self, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]:
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

    def find(
        self, query: JobQuery, after: str | None, limit: int, *, is_oldest_first: bool = False
    ) -> Script[Page[JobSummary]]:
        order = "oldest" if is_oldest_first else None
        asked = (*_query(query), *query_of(order=order, after=after, limit=limit))
        page = yield from self._session.read(get(JOBS, query=asked), WireJobPage)
        return Page(list(page.jobs), page.next, page.looked, page.unreadable)

    def count(self, query: JobQuery, at_most: int | None = None) -> Script[BoundedCount]:
        """Count jobs; the server stops at 10,000 where it keeps no counters."""
        found = yield from self._session.read(get(JOBS, "count", query=_query(query)), JobCount)
        return BoundedCount(found.count, not found.at_least, found.looked, found.unreadable)

    def cancel(self, job_id: str) -> Script[State]:
        return (yield from self._session.read(post(*_of(job_id, "cancel")), JobSummary)).state

    def cancel_all(self, query: JobQuery) -> Script[int]:
        return self._session.read(post(JOBS, "cancel", body=_conditions(query)), int, "count")

    def retry(self, job_id: str, choice: RetryChoice) -> Script[State]:
        request = post(*_of(job_id, "retry"), body=choice)
        return (yield from self._session.read(request, JobSummary)).state

    def edit(self, job_id: str, edits: Edits) -> Script[JobSummary]:
        check_names(edits)
        body = _edits(edits)
        if "payload" in body:
            body |= _payload(body.pop("payload"))
        request = Request("PATCH", path(*_of(job_id)), body=msgspec.json.encode(body))
        return self._session.read(request, JobSummary)

    def edit_all(self, query: JobQuery, edits: ManyEdits) -> Script[EditCount]:
        check_names(edits, ManyEdits)
        request = post(JOBS, "edit", body={**_conditions(query), "edit": _edits(edits)})
        found = yield from self._session.read(request, EditedJobs)
        return EditCount(found.count, found.refused)

    def why(self, job_id: str) -> Script[list[Reason]]:
        return self._session.read(get(*_of(job_id, "why")), list[Reason], "reasons")

    def attempts(self, job_id: str) -> Script[list[Attempt]]:
        return self._session.read(get(*_of(job_id, "attempts")), list[Attempt], "attempts")

    def history(self, job_id: str) -> Script[list[Change]]:
        return self._session.read(get(*_of(job_id, "history")), list[Change], "history")


class RemoteFlows(ServerActions):
    """The flows of a server."""

    def submit(self, nodes: Nodes, conn: Any = None) -> Script[StoredFlow]:
        """Store all jobs of a flow or none, only once.

        One random key is enough for that: if it is held already, the whole flow is stored.
        """
        if conn is not None:
            raise ConfigurationError("a server cannot join your transaction; leave out conn")
        own = next((name for name, job in nodes.items() if job.key is None), None)
        sent, safe = dict(nodes), 0.0
        if own is not None:
            sent[own] = replace(self._session.keyed(nodes[own]), on_duplicate="reject")
            safe = self._session.key_window
        request = post(FLOWS, body={"nodes": sent}, repeat_for=safe)
        try:
            stored = yield from self._session.read(request, SubmittedFlow)
        except DuplicateJobError as error:
            if error.existing_id is None:
                raise
            existing = yield from self._session.actions.jobs.get(error.existing_id)
            if own is None or existing.key != sent[own].key:
                raise
            assert existing.flow is not None
            return StoredFlow(existing.flow, (yield from self.get(existing.flow)))
        return StoredFlow(stored.id, stored.jobs)

    def find(self, kind: FlowKind | None, after: str | None, limit: int) -> Script[FlowList]:
        query = query_of(kind=kind, after=after, limit=limit)
        page = yield from self._session.read(get(FLOWS, query=query), WireFlowPage)
        return FlowList(list(page.flows), page.next)

    def get(self, flow_id: str) -> Script[dict[str, JobSummary]]:
        if not isinstance(flow_id, str) or not flow_id:
            raise FlowNotFoundError(shown(flow_id))
        return (yield from self._session.read(get(FLOWS, flow_id), FlowView)).jobs

    def states(self, flow_id: str, ids: Ids) -> Script[dict[str, State]]:
        found = yield from self.get(flow_id)
        by_id = {job.id: job.state for job in found.values()}
        return {name: by_id[job_id] for name, job_id in ids.items() if job_id in by_id}

    def wait(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, State]]:
        seconds = None if timeout is None else parse_duration(timeout, name="timeout")
        clock = self._session.clock
        deadline = None if seconds is None else clock.monotonic() + seconds
        while True:
            found = yield from self.get(flow_id)
            still = next((job for job in found.values() if not job.state.is_terminal), None)
            if still is None:
                return (yield from self.states(flow_id, ids))
            left = None if deadline is None else max(deadline - clock.monotonic(), 0.0)
            try:
                yield from self._session.actions.jobs.result(still.id, left)
            except WaitTimeoutError as error:
                raise WaitTimeoutError(still.id, seconds or 0.0, error.state) from None
            except (JobFailedError, JobCancelledError):
                continue

    def results(self, flow_id: str, ids: Ids, timeout: Duration | None) -> Script[dict[str, Any]]:
        yield from self.wait(flow_id, ids, timeout)
        values = {}
        for name, job_id in ids.items():
            values[name], _ = yield from self._session.actions.jobs.result(job_id, 0)
        return values

    def cancel(self, flow_id: str) -> Script[int]:
        return self._session.read(post(FLOWS, flow_id, "cancel"), int, "count")

    def retry(self, flow_id: str) -> Script[int]:
        return self._session.read(post(FLOWS, flow_id, "retry"), int, "count")


def check_nodes(nodes: Nodes) -> dict[str, Submission]:
    """Return the jobs of a flow by name; the server checks whether they can run."""
    if not isinstance(nodes, Mapping):
        raise InvalidJobError(f"a flow is prepared jobs by name, got {shown(nodes)}")
    if not nodes:
        raise EmptyFlowError("a flow needs at least one prepared job")
    check_batch(nodes.values())
    return dict(nodes)


def _of(job_id: str, *rest: str) -> tuple[str, ...]:
    """Return the parts of a job's path; raise JobNotFoundError for a malformed id."""
    id_bytes(job_id)
    return (JOBS, job_id, *rest)


def _withheld(job: Job) -> ForbiddenError:
    """Return the error for a token that may see the state of a job, but not its result."""
    return ForbiddenError(
        f"job {job.id} is {job.state}; its result is shown only to the token that submitted it, "
        f"and to tokens with the role read"
    )


def _result_of(job: Job) -> Any:
    """Return the result of a job that has ended, or raise the error of its failure."""
    if job.state is not State.COMPLETED:
        raise failure_of_end(job)
    body = job.result_body or NULL
    if body.encoding is Encoding.ENCRYPTED:
        raise EncryptionError(f"the result of job {job.id} is {body.data.decode()}")
    return decode(body)


def _edits(edits: Edits | ManyEdits) -> dict[str, Any]:
    """Return what to change as a body has it, except for a payload."""
    body: dict[str, Any] = {name: value for name, value in edits.items() if value is not None}
    if "priority" in body:
        body["priority"] = int(parse_priority(body["priority"]))
    if "tags" in body:
        body["tags"] = dict(body["tags"])
    if "run_at" in body:
        body["run_at"] = check_instant(body["run_at"], name="run_at")
    return body


def _conditions(query: JobQuery) -> dict[str, Any]:
    """Return conditions as a body has them."""
    filter, look = query.filter, query.look
    fields = {
        "state": filter.states,
        **msgspec.structs.asdict(filter),
        "priorities": [int(priority) for priority in look.priorities],
        "error": look.error,
        "where": list(map(str, look.where)),
    }
    del fields["states"]
    return {name: value for name, value in fields.items() if value}


def _query(query: JobQuery) -> tuple[tuple[str, str], ...]:
    """Return conditions as a query string has them."""
    fields = _conditions(query)
    many = [
        *(("state", str(state)) for state in fields.pop("state", ())),
        # The first colon ends the name.
        *(
            ("tag", f"{quote(name, safe=' /')}:{value}")
            for name, value in fields.pop("tags", {}).items()
        ),
        *(("priority", str(priority)) for priority in fields.pop("priorities", ())),
        *(("where", text) for text in fields.pop("where", ())),
    ]
    for name in ("created_after", "created_before"):
        if name in fields:
            fields[name] = fields[name].isoformat()
    return (*many, *query_of(**fields))


def _payload(value: Any) -> dict[str, Any]:
    body = encode(value)
    if body.encoding is Encoding.BINARY:
        return {"payload_base64": base64.b64encode(body.data).decode()}
    return {"payload": msgspec.Raw(body.data)}
