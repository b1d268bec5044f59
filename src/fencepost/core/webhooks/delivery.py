"""The webhook for a job with a callback_url that has ended, and the job that delivers it.

A delivery is an ordinary job of our own type, stored together with the end of its job (S1-109), so
that none is lost. Its payload is small; the rest is read from the store at delivery.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from fencepost.core.bounds import (
    WEBHOOK_ATTEMPTS,
    WEBHOOK_EXECUTION_TIMEOUT,
    WEBHOOK_LIFETIME,
    WEBHOOK_RESULT_MAX,
    WEBHOOK_RETRY_AFTER_MAX,
    WEBHOOK_RETRY_DELAY_MAX,
    WEBHOOK_RETRY_DELAY_MIN,
)
from fencepost.core.encryption import shown_text
from fencepost.core.job.job import Body, Encoding, Failure, Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Backoff, Policy
from fencepost.core.values.payload import decode
from fencepost.errors import HandlerSignal, InvalidPayloadError, PermanentError, TemporaryError

DELIVERY_TYPE = "fencepost.webhook"
DELIVERY_QUEUE = "fencepost.webhooks"
DELIVERY_POLICY = Policy(
    max_attempts=WEBHOOK_ATTEMPTS,
    # Twelve attempts over about six hours; jitter spreads the load on a receiver that is back.
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
    """The payload of a delivery: the end of a job, and the URL."""

    job_id: str
    url: str
    state: State
    completed_at: datetime
    """The job's ``completed_at``, unless the job ran again since."""
    attempt: int


def delivery_job(delivery: Delivery, correlation_id: str | None = None) -> NewJob:
    """Return the job of *delivery*, to be stored with the end of its job."""
    assert delivery.state.is_terminal
    return NewJob(
        type=DELIVERY_TYPE,
        payload=Body(msgspec.json.encode(delivery)),
        queue=DELIVERY_QUEUE,
        policy=DELIVERY_POLICY,
        correlation_id=correlation_id,
    )


def webhook_body(delivery: Delivery, job: Job | None) -> bytes:
    """Return the body: the event, its time, and the job, unless it ran again since."""
    data: dict[str, Any] = {"id": delivery.job_id}
    if job is not None:
        data |= {"type": job.type, "queue": job.queue}
    data |= {"state": delivery.state, "attempt": delivery.attempt}
    if job is not None:
        data |= {"correlation_id": job.correlation_id, "tags": job.tags}
        is_same_end = job.state is delivery.state and job.completed_at == delivery.completed_at
        data |= _end(job) if is_same_end else {"superseded": True}
    event = {
        "type": f"job.{delivery.state.value}",
        "timestamp": delivery.completed_at.astimezone(UTC),
        "data": data,
    }
    return msgspec.json.encode(event)


def _end(job: Job) -> dict[str, Any]:
    if job.state is State.COMPLETED:
        return _result(job.result_body or Body(b"null"))
    return {"error": None if job.failure is None else _error(job.failure)}


def _error(failure: Failure) -> dict[str, Any]:
    """Return a failure without exception and traceback, which show internals."""
    message = shown_text(failure.message)
    return {"category": failure.category, "message": message, "code": failure.code}


def _result(body: Body) -> dict[str, Any]:
    if len(body.data) <= WEBHOOK_RESULT_MAX:
        if body.encoding is Encoding.BINARY:
            return {"result_base64": base64.b64encode(body.data).decode()}
        if body.encoding is Encoding.JSON:
            with suppress(InvalidPayloadError):  # damaged, it would break the whole body
                decode(body)
                return {"result": msgspec.Raw(body.data)}
    return {"result_omitted": True}


GONE = 410
TEMPORARY = frozenset({408, 425, 429})
"""The 4xx answers that may be different the next time."""
PATIENT = frozenset({429, 503})
"""Answers with a Retry-After."""

_DIGITS_MAX = 9


def refusal(
    origin: str, status: int, *, retry_after: str | None, now: datetime
) -> HandlerSignal | None:
    """Return what the delivery raises after *status*; None if it succeeded."""
    if 200 <= status < 300:
        return None
    message = f"{origin} answered {status}"
    if 300 <= status < 400:
        # A public host could redirect us into a private network.
        return PermanentError(f"{message}; redirects are not followed", code="callback_redirected")
    if status == GONE:
        return PermanentError(f"{message}: it accepts no more webhooks", code="callback_gone")
    if 400 <= status < 500 and status not in TEMPORARY:
        return PermanentError(message, code="callback_rejected")
    wait = parse_retry_after(retry_after, now) if status in PATIENT else None
    return TemporaryError(message, retry_after=wait)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After, within bounds; None if it cannot be read."""
    from email.utils import parsedate_to_datetime  # slow to load, and seldom needed

    text = (value or "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        seconds = float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
            seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(max(seconds, 0.0), WEBHOOK_RETRY_AFTER_MAX)
