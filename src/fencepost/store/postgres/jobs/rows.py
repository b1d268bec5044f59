"""From rows to values and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import (
    EMPTY,
    Attempt,
    AttemptOutcome,
    Body,
    DeadLetter,
    Encoding,
    Job,
    Ownership,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import attempt_id, previous_attempt_id
from fencepost.store.plan import Row
from fencepost.store.sql.codes import BY_NUMBER, ENCODING_NUMBER, ENCODINGS, MODES
from fencepost.store.sql.texts import UNREADABLE, decode_failure, decode_progress, readable_tags

_raw = msgspec.json.Decoder(msgspec.Raw)


_PRIORITIES = {int(priority): priority for priority in Priority}

JOB_COLUMNS = """
seq, id::text, queue, type, priority, policy, state, attempt, max_attempts, version, run_at,
lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at, completed_at,
expires_at, key, correlation_id, tags::text, replay_of::text, failure, progress,
checkpoint_encoding, checkpoint, checkpoint_bytes, result_encoding, result, result_bytes,
flow, node, mode, missing, depth, gathers, own_priority, concurrency_key, callback_url,
submitter, encoding, payload, payload_bytes
"""
"""What to select from the view of all jobs."""


def decode_job(row: Row, policies: dict[int, Policy], now: datetime) -> Job:
    """Return the job of a row with JOB_COLUMNS. What cannot be read is left out, not raised."""
    (
        _seq, id_, queue, type_, priority, policy, state, attempt, max_attempts, version, run_at,
        lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at, completed_at,
        expires_at, key, correlation_id, tags, replay_of, failure, progress,
        checkpoint_encoding, checkpoint, checkpoint_bytes, result_encoding, result, result_bytes,
        flow, node, mode, missing, depth, gathers, own_priority, concurrency_key, callback_url,
        submitter, encoding, payload, payload_bytes,
    ) = row  # fmt: skip
    is_running = BY_NUMBER[state] is State.RUNNING
    return Job(
        id=id_,
        type=type_,
        queue=queue,
        priority=_PRIORITIES.get(priority, Priority.NORMAL),
        state=BY_NUMBER[state],
        attempt=attempt,
        max_attempts=max_attempts,
        created_at=utc(created_at),
        updated_at=utc(updated_at),
        run_at=utc(run_at),
        expires_at=utc(expires_at),
        scheduled_at=utc_or_none(scheduled_at),
        started_at=utc_or_none(started_at),
        completed_at=utc_or_none(completed_at),
        lease=_ownership(worker, version, utc(lease_expires_at), now) if is_running else None,
        lease_version=version,
        policy=policies.get(policy, DEFAULT_POLICY),
        payload=decode_body(encoding, payload, payload_bytes) or EMPTY,
        result=decode_body(result_encoding, result, result_bytes),
        failure=decode_failure(failure),
        progress=decode_progress(progress),
        checkpoint=decode_body(checkpoint_encoding, checkpoint, checkpoint_bytes),
        key=key,
        tags=readable_tags(tags),
        correlation_id=correlation_id,
        replay_of=replay_of,
        callback_url=callback_url,
        waits=None
        if mode is None
        else Waits(MODES[mode], missing, depth, bool(gathers), _PRIORITIES.get(own_priority)),
        flow=flow,
        node=node,
        concurrency_key=concurrency_key,
        submitter=submitter,
    )


def utc(instant: datetime) -> datetime:
    """Return a time as the server gave it, in whatever zone its session is, in ours."""
    return instant.astimezone(UTC)


def utc_or_none(instant: datetime | None) -> datetime | None:
    """Return the time, or None for None."""
    return None if instant is None else utc(instant)


def _ownership(worker: str, version: int, expires_at: datetime, now: datetime) -> Ownership:
    return Ownership(worker, version, expires_at, now >= expires_at)


def plain_json(body: Body) -> str | None:
    """Return *body* as text that PostgreSQL gives back unchanged inside a JSON array, or None.

    Everything that ``core.payload`` encodes is such text; what came another way is kept as bytes.
    """
    data = body.data
    if body.encoding is not Encoding.JSON or not data or data[0] <= 32 or data[-1] <= 32:
        return None
    try:
        _raw.decode(data)
        return data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def body_fields(body: Body) -> tuple[int, str | None, bytes | None]:
    """Return the three columns of a body: how to read it, and it, as text or as bytes."""
    text = plain_json(body)
    return ENCODING_NUMBER[body.encoding], text, body.data if text is None else None


def hex_fields(body: Body | None) -> tuple[int | None, str | None, str | None]:
    """Return the same with the bytes in hexadecimal, as JSON can hold them; three None for none."""
    if body is None:
        return None, None, None
    encoding, text, data = body_fields(body)
    return encoding, text, None if data is None else data.hex()


def decode_body(encoding: int | None, text: str | None, data: bytes | None) -> Body | None:
    """Return a body, or None for none and for one that cannot be read."""
    if encoding not in (0, 1, 2) or (text is None and data is None):
        return None
    return Body(text.encode() if text is not None else bytes(data or b""), ENCODINGS[encoding])


def decode_attempts(job_id: str, rows: Sequence[Row]) -> list[Attempt]:
    """Return the attempts of a job, oldest first, each with the one before it."""
    lasts = (0, *(row[0] for row in rows))
    return [_attempt(job_id, row, last) for row, last in zip(rows, lasts, strict=False)]


def _attempt(job_id: str, row: Row, last_version: int) -> Attempt:
    """Return an attempt from version, number, worker, outcome, started_at, ended_at, failure."""
    version, number, worker, outcome, started_at, ended_at, failure = row
    return Attempt(
        id=attempt_id(job_id, version),
        job_id=job_id,
        previous_id=previous_attempt_id(job_id, last_version),
        number=number,
        lease_version=version,
        worker=worker,
        outcome=AttemptOutcome(outcome),
        started_at=utc(started_at),
        ended_at=utc_or_none(ended_at),
        failure=decode_failure(failure),
    )


def decode_dead_letter(row: Row) -> DeadLetter:
    """Return a dead letter from id, type, queue, state, attempt, failure, ended_at."""
    id_, type_, queue, state, attempt, failure, ended_at = row
    return DeadLetter(
        job_id=id_,
        type=type_,
        queue=queue,
        state=BY_NUMBER[state],
        attempts=attempt,
        failure=decode_failure(failure) or UNREADABLE,
        dead_at=utc(ended_at),
    )
