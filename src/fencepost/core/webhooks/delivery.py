"""What is sent when a job with a callback_url has ended, and the job that delivers it.

A delivery is an ordinary job of a type of our own, stored together with the end of the job that it
tells of (S1-109): nothing but its own retries and dead letters stand between the two. Its payload
is small; the rest is read from the store when it is delivered.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from fencepost.core.bounds import (
    WEBHOOK_ATTEMPTS,
    WEBHOOK_EXECUTION_TIMEOUT,
    WEBHOOK_LIFETIME,
    WEBHOOK_RESULT_MAX,
    WEBHOOK_RETRY_DELAY_MAX,
    WEBHOOK_RETRY_DELAY_MIN,
)
from fencepost.core.crypto.envelope import shown_text
from fencepost.core.job.job import Body, Encoding, Failure, Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.job.retry import Backoff
from fencepost.core.values.payload import decode
from fencepost.errors import InvalidPayloadError

DELIVERY_TYPE = "fencepost.webhook"
DELIVERY_QUEUE = "fencepost.webhooks"
DELIVERY_POLICY = Policy(
    max_attempts=WEBHOOK_ATTEMPTS,
    # Twelve attempts over about six hours; the jitter keeps a receiver that returns from a rush.
    backoff=Backoff(
        initial_delay=WEBHOOK_RETRY_DELAY_MIN,
        max_delay=WEBHOOK_RETRY_DELAY_MAX,
        multiplier=3.0,
        jitter=0.2,
    ),
    timeout=WEBHOOK_EXECUTION_TIMEOUT,
    lifetime=WEBHOOK_LIFETIME,
)


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of a delivery: which end of which job, and where to tell of it."""

    job_id: str
    url: str
    state: State
    ended_at: datetime
    """Equal to the job's ``completed_at`` for as long as the job has not been run again."""
    attempt: int


def delivery_job(delivery: Delivery, correlation_id: str | None = None) -> NewJob:
    """Return the job that delivers *delivery*, to be stored with the end that it tells of."""
    assert delivery.state.is_terminal
    return NewJob(
        type=DELIVERY_TYPE,
        payload=Body(msgspec.json.encode(delivery)),
        queue=DELIVERY_QUEUE,
        policy=DELIVERY_POLICY,
        correlation_id=correlation_id,
    )


def webhook_body(delivery: Delivery, job: Job | None) -> bytes:
    """Return what is sent: the event, its time, and the job as far as it is still the one meant."""
    data: dict[str, Any] = {"id": delivery.job_id}
    if job is not None:
        data |= {"type": job.type, "queue": job.queue}
    data |= {"state": delivery.state, "attempt": delivery.attempt}
    if job is not None:
        data |= {"correlation_id": job.correlation_id, "tags": job.tags}
        is_same_end = job.state is delivery.state and job.completed_at == delivery.ended_at
        data |= _end(job) if is_same_end else {"superseded": True}
    event = {
        "type": f"job.{delivery.state.value}",
        "timestamp": delivery.ended_at.astimezone(UTC),
        "data": data,
    }
    return msgspec.json.encode(event)


def _end(job: Job) -> dict[str, Any]:
    if job.state is State.COMPLETED:
        return _result(job.result or Body(b"null"))
    return {"error": None if job.failure is None else _error(job.failure)}


def _error(failure: Failure) -> dict[str, Any]:
    """Without exception and traceback: they tell of the insides."""
    message = shown_text(failure.message)
    return {"category": failure.category, "message": message, "code": failure.code}


def _result(body: Body) -> dict[str, Any]:
    show = _SHOWN_AS.get(body.encoding)
    if show is None or len(body.data) > WEBHOOK_RESULT_MAX:
        return {"result_omitted": True}
    return show(body)


def _as_json(body: Body) -> dict[str, Any]:
    try:
        decode(body)
    except InvalidPayloadError:  # it would spoil the rest
        return {"result_omitted": True}
    return {"result": msgspec.Raw(body.data)}


def _as_base64(body: Body) -> dict[str, Any]:
    return {"result_base64": base64.b64encode(body.data).decode()}


_SHOWN_AS: dict[Encoding, Callable[[Body], dict[str, Any]]] = {
    Encoding.JSON: _as_json,
    Encoding.BINARY: _as_base64,
}
