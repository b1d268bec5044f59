"""What a receiver's answer means for a delivery."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import WEBHOOK_RETRY_AFTER_MAX
from fencepost.core.webhooks.delivery import parse_retry_after, refusal
from fencepost.errors import HandlerSignal, PermanentError, TemporaryError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def answer(status: int, retry_after: str | None = None) -> HandlerSignal | None:
    return refusal("https://example.com", status, retry_after=retry_after, now=NOON)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_is_a_delivery(status: int) -> None:
    assert answer(status) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((301, "callback_redirected"), (302, "callback_redirected")),
        *((304, "callback_redirected"), (307, "callback_redirected")),
        *((308, "callback_redirected"), (410, "callback_gone")),
        *((400, "callback_rejected"), (401, "callback_rejected"), (404, "callback_rejected")),
        (422, "callback_rejected"),
    ],
)
def test_an_answer_that_would_stay_the_same_is_permanent(status: int, code: str) -> None:
    signal = answer(status)
    assert isinstance(signal, PermanentError)
    assert signal.code == code
    assert f"https://example.com answered {status}" in str(signal)


@pytest.mark.parametrize("status", [100, 101, 408, 425, 429, 500, 502, 503, 504, 599, 0, 999])
def test_an_answer_that_may_change_is_temporary(status: int) -> None:
    signal = answer(status)
    assert isinstance(signal, TemporaryError)
    assert signal.retry_after is None


@pytest.mark.parametrize(("status", "wait"), [(429, 90.0), (503, 90.0), (500, None), (408, None)])
def test_a_receiver_that_is_busy_may_say_for_how_long(status: int, wait: float | None) -> None:
    signal = answer(status, "90")
    assert isinstance(signal, TemporaryError)
    assert signal.retry_after == wait


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(("0", 0.0), ("120", 120.0), (" 7 ", 7.0), ("999999999", WEBHOOK_RETRY_AFTER_MAX)),
        ("Thu, 01 Jan 2026 12:05:00 GMT", 300.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 12:05:00 -0000", 300.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", WEBHOOK_RETRY_AFTER_MAX),
        *((None, None), ("", None), ("soon", None), ("-1", None), ("1.5", None), ("9" * 50, None)),
    ],
)
def test_a_wait_is_read_in_seconds_or_as_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOON) == seconds


@given(st.text(max_size=60))
def test_whatever_a_receiver_asks_for_is_bounded(value: str) -> None:
    wait = parse_retry_after(value, NOON)
    assert wait is None or 0 <= wait <= WEBHOOK_RETRY_AFTER_MAX
