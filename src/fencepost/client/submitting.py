"""Submitting over HTTP, so that a job is stored once though an answer may be lost.

A single submission that was given no key is sent with one of its own: when the answer does not
come, the same is sent again, and returns what the first has stored. Its key is random and known to
nobody, so that whatever it returns is the job that was meant, and no duplicate. The jobs of a bulk
are not given any, which would make it half as fast: they have the keys that their caller gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fencepost.client.exchange import Script, get, post
from fencepost.client.job_scripts import JOBS, look
from fencepost.client.options import repeat_for
from fencepost.client.session import Session
from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.display import shown
from fencepost.errors import DuplicateJobError, FlowNotFoundError, InvalidJobError
from fencepost.wire.jobs import Accepted, Batch, JobSummary, Submission


def submit(session: Session, job: Submission) -> Script[Accepted]:
    """Store a job, once."""
    sent = keyed(session, job)
    request = post(JOBS, body=sent, repeat_for=repeat_for(sent))
    return _own(job, (yield from session.read(request, Accepted)))


def submit_many(session: Session, jobs: Sequence[Submission]) -> Script[list[Accepted]]:
    """Store many jobs, all or none; sent again after a lost answer only if all have keys."""
    if not jobs:
        return []
    safe = min(repeat_for(job) for job in jobs)
    request = post(JOBS, "batch", body=Batch(jobs=list(jobs), atomic=True), repeat_for=safe)
    return (yield from session.read(request, list[Accepted], "jobs"))


def keyed(session: Session, job: Submission) -> Submission:
    """Return *job* with a key: its own, or a random one."""
    if job.key is not None:
        return job
    key = f"client:{session.clock.new_token()}"
    return replace(job, key=key, key_window=session.key_window, on_duplicate="return")


def _own(job: Submission, reply: Accepted) -> Accepted:
    return replace(reply, duplicate=False) if job.key is None else reply


def check_batch(jobs: Iterable[Submission]) -> list[Submission]:
    """Return *jobs* if they are not too many for one request, and all are prepared."""
    found = list(jobs)
    if len(found) > HTTP_BATCH_MAX:
        raise InvalidJobError(
            f"submit at most {HTTP_BATCH_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(found):,}; split them"
        )
    for job in found:
        if not isinstance(job, Submission):
            raise InvalidJobError(
                f"submit_many takes what prepare() of a client's task returns, got {shown(job)}"
            )
    return found


class StoredFlow(msgspec.Struct, frozen=True):
    """A flow, and its jobs by name."""

    id: str
    jobs: Mapping[str, Accepted | JobSummary]


class _Submitted(msgspec.Struct, frozen=True):
    id: str
    jobs: dict[str, Accepted]


class FlowView(msgspec.Struct, frozen=True):
    """A flow as the server shows it."""

    id: str
    jobs: dict[str, JobSummary]


def submit_flow(session: Session, nodes: Mapping[str, Submission]) -> Script[StoredFlow]:
    """Store all jobs of a flow or none, and once.

    One random key is enough for that: should it be held already, all of the flow is stored.
    """
    own = next((name for name, job in nodes.items() if job.key is None), None)
    sent, safe = dict(nodes), 0.0
    if own is not None:
        sent[own] = replace(keyed(session, nodes[own]), on_duplicate="reject")
        safe = session.key_window
    request = post("/v1/flows", body={"nodes": sent}, repeat_for=safe)
    try:
        stored = yield from session.read(request, _Submitted)
    except DuplicateJobError as error:
        if error.existing_id is None:
            raise
        existing = yield from look(session, error.existing_id)
        if own is None or existing.key != sent[own].key:
            raise
        assert existing.flow is not None
        found = yield from look_at_flow(session, existing.flow)
        return StoredFlow(found.id, found.jobs)
    return StoredFlow(stored.id, stored.jobs)


def look_at_flow(session: Session, flow_id: str) -> Script[FlowView]:
    """Return the jobs of a flow by name, or raise FlowNotFoundError."""
    if not isinstance(flow_id, str) or not flow_id:
        raise FlowNotFoundError(shown(flow_id))
    return (yield from session.read(get("/v1/flows", flow_id), FlowView))
