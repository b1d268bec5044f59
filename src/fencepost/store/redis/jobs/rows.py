"""New jobs as documents, and documents as the jobs that readers see."""

from __future__ import annotations

from typing import Any

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import Body, NewJob, Ownership
from fencepost.core.job.job import Job as CoreJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.values.names import DEFAULT_QUEUE, id_text
from fencepost.core.values.times import from_us, from_us_or_none, seconds_to_us
from fencepost.store.redis.documents.document import Document, document_of
from fencepost.store.redis.documents.job import PRIORITIES, Kept
from fencepost.store.sql.codec import BY_NUMBER, ENCODING_NUMBER, MODE_NUMBER, MODES

TIMEOUT_US = seconds_to_us(DEFAULT_POLICY.timeout)


def encode_waits(waits: Waits) -> list[int | None]:
    own = None if waits.own_priority is None else int(waits.own_priority)
    return [MODE_NUMBER[waits.mode], waits.missing, waits.depth, int(waits.gathers), own]


def decode_waits(fields: list[int | None], *, is_pending: bool) -> Waits:
    mode, missing, depth, gathers, own = fields
    return Waits(
        MODES[mode or 0],
        (missing or 0) if is_pending else 0,
        depth or 1,
        bool(gathers),
        None if own is None else PRIORITIES[own],
    )


def new_document(
    id: bytes, job: NewJob, *, policy: bytes | None, state: State, run_at: int, now: int
) -> Document:
    """Return the document of a new job, without its payload."""
    terms, key = job.policy, job.key
    return document_of(
        **submitted_fields(job),
        lease_version=0,
        attempt=0,
        id=id,
        number=BY_NUMBER.index(state),
        created_at=now,
        expires_at=now + seconds_to_us(terms.lifetime),
        run_at=run_at,
        updated_at=now,
        scheduled_at=now if state is State.SCHEDULED else None,
        max_attempts=terms.max_attempts,
        policy=policy,
        payload_encoding=ENCODING_NUMBER[job.payload.encoding],
        key=None if key is None else key.value,
        key_window=None if key is None or key.window is None else seconds_to_us(key.window),
    )


def submitted_fields(job: NewJob | CoreJob) -> dict[str, Any]:
    """Return the fields of a document that a job has from its submission on."""
    policy = job.policy
    timeout = seconds_to_us(policy.timeout)
    return {
        "lease_ttl": None if policy.lease_ttl is None else seconds_to_us(policy.lease_ttl),
        "timeout": None if timeout == TIMEOUT_US else timeout,
        "type": job.type,
        "queue": None if job.queue == DEFAULT_QUEUE else job.queue,
        "priority": int(job.priority),
        "tags": dict(job.tags) or None,
        "correlation_id": job.correlation_id,
        "flow": job.flow,
        "node": job.node,
        "callback_url": job.callback_url,
        "concurrency_key": job.concurrency_key,
        "submitter": job.submitter,
    }


def job_of(
    kept: Kept,
    payload: Body,
    now: int,
    *,
    result: Body | None = None,
    checkpoint: Body | None = None,
    progress: object = None,
) -> CoreJob:
    """Return the job as a reader sees it."""
    document, lease = kept.document, kept.lease
    state = kept.state
    owner = None
    if lease is not None:
        ends = lease.expires_at
        owner = Ownership(lease.worker, lease.version, from_us(ends), now >= ends)
    waits = None
    if document.waits is not None:
        waits = decode_waits(document.waits, is_pending=state is State.PENDING)
    return CoreJob(
        id=kept.id,
        type=document.type,
        queue=document.queue_name,
        priority=kept.priority,
        state=state,
        attempt=kept.attempt,
        max_attempts=document.max_attempts,
        created_at=from_us(document.created_at),
        updated_at=from_us(document.updated_at if lease is None else lease.started_at),
        run_at=from_us(document.run_at),
        expires_at=from_us(document.expires_at),
        scheduled_at=from_us_or_none(document.scheduled_at),
        started_at=from_us_or_none(document.started_at if lease is None else lease.started_at),
        completed_at=from_us_or_none(document.completed_at),
        lease=owner,
        lease_version=document.lease_version if lease is None else lease.version,
        policy=kept.policy,
        payload_body=payload,
        result_body=result,
        failure=kept.failure,
        progress=progress,  # type: ignore[arg-type]
        checkpoint_body=checkpoint,
        key=document.key,
        tags=document.tags or {},
        correlation_id=document.correlation_id,
        replay_of=None if document.replay_of is None else id_text(document.replay_of),
        callback_url=document.callback_url,
        waits=waits,
        flow=document.flow,
        node=document.node,
        concurrency_key=document.concurrency_key,
        submitter=document.submitter,
    )
