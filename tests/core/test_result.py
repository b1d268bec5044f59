"""What a handler returns, on its way into the store."""

from __future__ import annotations

import pytest

from fencepost.core.job.failure import classify
from fencepost.core.job.job import Body, Category, Encoding
from fencepost.core.job.outcome import Failed
from fencepost.core.values import payload
from fencepost.errors import PermanentError


def test_a_result_is_json_or_bytes() -> None:
    """S1-16, S1-90."""
    assert payload.encode_result(None) == Body(b"null")
    assert payload.encode_result({"a": [1]}) == Body(b'{"a":[1]}')
    assert payload.encode_result(b"\xff") == Body(b"\xff", Encoding.BINARY)


def test_a_result_that_is_too_large_fails_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-82: the next attempt would return as much."""
    monkeypatch.setattr(payload, "RESULT_BYTES_MAX", 10)
    assert payload.encode_result("x" * 8).data == b'"xxxxxxxx"'
    with pytest.raises(PermanentError) as caught:
        payload.encode_result("x" * 9)
    outcome = classify(caught.value)
    assert isinstance(outcome, Failed)
    assert (outcome.failure.category, outcome.failure.code) == (
        Category.PERMANENT,
        "invalid_result",
    )


def test_a_failure_can_be_stored_whatever_its_texts_hold() -> None:
    """A lone surrogate cannot be encoded; a settlement that cannot be written would be lost."""
    outcome = classify(PermanentError("bad \ud800 text", code="\ud800"))
    assert isinstance(outcome, Failed)
    outcome.failure.message.encode()
    assert outcome.failure.code is not None
    outcome.failure.code.encode()
