"""From rows to values and back."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.flows.dependencies import Waits
from fencepost.core.job.job import (
    EMPTY,
    Attempt,
    AttemptOutcome,
    Body,
    DeadLetter,
    Job,
    Ownership,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.ids import attempt_id, id_text, previous_attempt_id
from fencepost.core.values.instants import from_us, from_us_or_none
from fencepost.store.plan import Row
from fencepost.store.sql.codes import BY_NUMBER, ENCODING_NUMBER, ENCODINGS, MODES
from fencepost.store.sql.texts import UNREADABLE, decode_failure, decode_progress, readable_tags
from fencepost.store.sqlite.jobs.catalog import Lane

_PRIORITIES = {int(priority): priority for priority in Priority}


JOB_COLUMNS = """
seq, id, lane, policy, priority, state, attempt, max_attempts, run_at, lease_version,
lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at, completed_at,
expires_at, key, correlation_id, tags, replay_of, failure, progress, checkpoint,
checkpoint_encoding, result, result_encoding, flow, node, mode, missing, depth, gathers,
own_priority, (select slots.key from slots where slots.slot = jobs.slot), callback_url,
submitter, payload_encoding, payload
"""


def decode_job(row: Row, lanes: dict[int, Lane], policies: dict[int, Policy], now: int) -> Job:
    """Return the job of a row with JOB_COLUMNS. What cannot be read is left out, not raised."""
    (
        _seq, id_, lane, policy, priority, state, attempt, max_attempts, run_at, lease_version,
        lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at, completed_at,
        expires_at, key, correlation_id, tags, replay_of, failure, progress, checkpoint,
        checkpoint_encoding, result, result_encoding, flow, node, mode, missing, depth, gathers,
        own_priority, concurrency_key, callback_url, submitter, payload_encoding, payload,
    ) = row  # fmt: skip
    is_running = BY_NUMBER[state] is State.RUNNING
    still_missing = missing if BY_NUMBER[state] is State.PENDING else 0
    return Job(
        id=id_text(id_),
        type=lanes[lane].type,
        queue=lanes[lane].queue,
        priority=_PRIORITIES.get(priority, Priority.NORMAL),
        state=BY_NUMBER[state],
        attempt=attempt,
        max_attempts=max_attempts,
        created_at=from_us(created_at),
        updated_at=from_us(updated_at),
        run_at=from_us(run_at),
        expires_at=from_us(expires_at),
        scheduled_at=from_us_or_none(scheduled_at),
        started_at=from_us_or_none(started_at),
        completed_at=from_us_or_none(completed_at),
        lease=_ownership(worker, lease_version, lease_expires_at, now) if is_running else None,
        lease_version=lease_version,
        policy=policies.get(policy, DEFAULT_POLICY),
        payload=decode_body(payload, payload_encoding) or EMPTY,
        result=decode_body(result, result_encoding),
        failure=decode_failure(failure),
        progress=decode_progress(progress),
        checkpoint=decode_body(checkpoint, checkpoint_encoding),
        key=key,
        tags=readable_tags(tags),
        correlation_id=correlation_id,
        replay_of=None if replay_of is None else id_text(replay_of),
        callback_url=callback_url,
        waits=None
        if mode is None
        else Waits(MODES[mode], still_missing, depth, bool(gathers), _PRIORITIES.get(own_priority)),
        flow=flow,
        node=node,
        concurrency_key=concurrency_key,
        submitter=submitter,
    )


def _ownership(worker: str, version: int, expires_at: int, now: int) -> Ownership:
    return Ownership(worker, version, from_us(expires_at), now >= expires_at)


def decode_body(data: bytes | None, encoding: int | None) -> Body | None:
    """Return a body, or None for none and for one that cannot be read."""
    if not isinstance(data, bytes) or encoding not in (0, 1, 2):
        return None
    return Body(data, ENCODINGS[encoding])


def encode_body(body: Body | None) -> tuple[bytes | None, int | None]:
    """Return the two columns of a body."""
    return (None, None) if body is None else (body.data, ENCODING_NUMBER[body.encoding])


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
        started_at=from_us(started_at),
        ended_at=from_us_or_none(ended_at),
        failure=decode_failure(failure),
    )


def decode_dead_letter(row: Row, lanes: dict[int, Lane]) -> DeadLetter:
    """Return a dead letter from id, lane, state, attempt, failure, completed_at."""
    id_, lane, state, attempt, failure, completed_at = row
    return DeadLetter(
        job_id=id_text(id_),
        type=lanes[lane].type,
        queue=lanes[lane].queue,
        state=BY_NUMBER[state],
        attempts=attempt,
        failure=decode_failure(failure) or UNREADABLE,
        dead_at=from_us(completed_at),
    )
