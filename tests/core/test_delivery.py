"""What a webhook says, and the job that delivers it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import (
    CALLBACK_URL_LENGTH_MAX,
    WEBHOOK_EXECUTION_TIMEOUT,
    WEBHOOK_RESULT_MAX,
    WEBHOOK_TIMEOUT_MAX,
)
from fencepost.core.job.job import Body, Category, Encoding, Failure, Job
from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.job.policy import Priority
from fencepost.core.webhooks.delivery import (
    DELIVERY_POLICY,
    DELIVERY_QUEUE,
    DELIVERY_TYPE,
    Delivery,
    delivery_job,
    webhook_body,
)

NOON = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
FAILURE = Failure(
    Category.PERMANENT, "no such user", code="E1", exception="shop.Missing", traceback="line 7"
)


def delivery(state: State = State.COMPLETED, **fields: Any) -> Delivery:
    given = {"job_id": "j", "url": "https://example.com/", "completed_at": NOON, "attempt": 2}
    return Delivery(state=state, **{**given, **fields})


def job(state: State = State.COMPLETED, **fields: Any) -> Job:
    given = {
        "tags": {"tenant": "7"},
        "correlation_id": "order-9",
        "completed_at": NOON,
        "payload_body": Body(b'{"secret":"payload"}'),
    }
    return Job(
        id="j",
        type="mail",
        queue="letters",
        priority=Priority.NORMAL,
        state=state,
        attempt=2,
        max_attempts=3,
        created_at=NOON,
        updated_at=NOON,
        run_at=NOON,
        expires_at=NOON + timedelta(days=7),
        **{**given, **fields},
    )


def said(about: Delivery, stored: Job | None) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(webhook_body(about, stored))
    return event


def test_a_webhook_tells_of_the_end_and_of_the_job() -> None:
    """S1-108, S1-109."""
    assert said(delivery(), job(result_body=Body(b'{"sent":1}'))) == {
        "type": "job.completed",
        "timestamp": "2026-01-01T12:00:00.123456Z",
        "data": {
            "id": "j",
            "type": "mail",
            "queue": "letters",
            "state": "completed",
            "attempt": 2,
            "correlation_id": "order-9",
            "tags": {"tenant": "7"},
            "result": {"sent": 1},
        },
    }


@pytest.mark.parametrize("state", [State.FAILED, State.DEAD_LETTER, State.CANCELLED])
def test_an_end_without_success_tells_why_but_not_of_the_insides(state: State) -> None:
    """S1-109: every terminal state."""
    event = said(delivery(state), job(state, failure=FAILURE))
    assert event["type"] == f"job.{state.value}"
    assert event["data"]["error"] == {
        "category": "permanent",
        "message": "no such user",
        "code": "E1",
    }
    assert "result" not in event["data"]
    body = webhook_body(delivery(state), job(state, failure=FAILURE))
    assert b"line 7" not in body
    assert b"shop.Missing" not in body


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_the_payload_is_never_sent(state: State) -> None:
    assert b"secret" not in webhook_body(delivery(state), job(state, failure=FAILURE))


def test_a_job_that_is_gone_is_told_of_all_the_same() -> None:
    """S1-109: pruned before its webhook was delivered."""
    assert said(delivery(State.FAILED), None) == {
        "type": "job.failed",
        "timestamp": "2026-01-01T12:00:00.123456Z",
        "data": {"id": "j", "state": "failed", "attempt": 2},
    }


@pytest.mark.parametrize(
    "now",
    [
        job(State.RUNNING, completed_at=None, result_body=None),
        job(State.COMPLETED, completed_at=NOON + timedelta(seconds=1), result_body=Body(b"1")),
        job(State.DEAD_LETTER, failure=FAILURE),
    ],
    ids=lambda now: str(now.state),
)
def test_a_job_that_was_run_again_is_not_confused_with_its_earlier_end(now: Job) -> None:
    event = said(delivery(State.FAILED), now)
    assert event["data"]["state"] == "failed"
    assert event["data"]["superseded"] is True
    assert event["data"].keys().isdisjoint({"result", "error"})


def test_a_binary_result_is_base64() -> None:
    data = bytes(range(256))
    event = said(delivery(), job(result_body=Body(data, Encoding.BINARY)))
    assert base64.b64decode(event["data"]["result_base64"]) == data


@pytest.mark.parametrize(
    ("body", "is_sent"),
    [
        (Body(b'"%s"' % (b"x" * (WEBHOOK_RESULT_MAX - 2))), True),
        (Body(b'"%s"' % (b"x" * (WEBHOOK_RESULT_MAX - 1))), False),
        (Body(b"x" * WEBHOOK_RESULT_MAX, Encoding.BINARY), True),
        (Body(b"x" * (WEBHOOK_RESULT_MAX + 1), Encoding.BINARY), False),
        (Body(b'{"broken'), False),
        (Body(b'"\xff"'), False),
        (Body(b"[" * 6_000), False),
    ],
    ids=["JSON", "large JSON", "binary", "large binary", "corrupt", "not UTF-8", "nested"],
)
def test_a_result_that_is_too_large_or_unreadable_is_left_out_and_that_is_said(
    body: Body, is_sent: bool
) -> None:
    data = said(delivery(), job(result_body=body))["data"]
    assert data.get("result_omitted", False) is not is_sent
    assert bool(data.keys() & {"result", "result_base64"}) is is_sent


def test_a_result_is_passed_on_as_it_was_stored() -> None:
    """A number of many digits, read and written again, would be another."""
    body = webhook_body(
        delivery(), job(result_body=Body(b'[123456789012345678901234567890.0, "\\u00e9"]'))
    )
    assert b'[123456789012345678901234567890.0, "\\u00e9"]' in body


def test_a_job_that_returned_nothing_has_a_result_of_null() -> None:
    assert said(delivery(), job(result_body=None))["data"]["result"] is None


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_delivery_is_an_ordinary_job_with_a_small_payload(state: State) -> None:
    """S1-109."""
    made = delivery_job(delivery(state, url="https://h/" + "x" * 2_038), "order-9")
    assert (made.type, made.queue) == (DELIVERY_TYPE, DELIVERY_QUEUE)
    assert (made.policy, made.correlation_id) == (DELIVERY_POLICY, "order-9")
    assert made.callback_url is None, "a delivery has no delivery of its own"
    assert len(made.payload.data) < CALLBACK_URL_LENGTH_MAX + 500


def test_a_job_that_has_not_ended_has_no_delivery() -> None:
    with pytest.raises(AssertionError):
        delivery_job(delivery(State.RUNNING))


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(sorted(TERMINAL)))
def test_a_delivery_is_read_as_it_was_stored(completed_at: datetime, state: State) -> None:
    about = delivery(state, completed_at=completed_at)
    stored = delivery_job(about).payload.data
    assert msgspec.json.decode(stored, type=Delivery) == about


def test_deliveries_are_tried_for_hours_and_within_their_lifetime() -> None:
    rng = Random(0)
    delays = [DELIVERY_POLICY.backoff.delay(n, rng) for n in range(1, DELIVERY_POLICY.max_attempts)]
    assert 4 * 3600 < sum(delays) < DELIVERY_POLICY.lifetime
    assert min(delays) >= 4
    assert max(delays) <= 3600
    assert WEBHOOK_TIMEOUT_MAX < WEBHOOK_EXECUTION_TIMEOUT == DELIVERY_POLICY.timeout
