"""Idempotency keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.job.idempotency import Key, OnDuplicate, check_key, is_held, parse_on_duplicate
from fencepost.errors import ConfigurationError, InvalidJobError, InvalidKeyError


@pytest.mark.parametrize("key", ["k", "k" * 256, "🔑" * 256, "a\x01b\n", " "])
def test_a_key_is_any_text_of_up_to_256_characters(key: str) -> None:
    """S1-6, S1-7: characters count, not bytes."""
    assert check_key(key) == key


@pytest.mark.parametrize(
    "key", ["", "k" * 257, "🔑" * 257, "a\0b", None, 5, b"k", ["k"], "\ud800", True]
)
def test_a_key_that_is_empty_too_long_or_no_text_is_refused(key: Any) -> None:
    """S1-6."""
    with pytest.raises(InvalidKeyError, match="idempotency key") as caught:
        check_key(key)
    assert isinstance(caught.value, InvalidJobError)


@given(st.text(st.characters()) | st.binary() | st.none() | st.integers())
def test_every_accepted_key_can_be_stored(value: Any) -> None:
    """S1-6: and nothing but InvalidKeyError refuses one."""
    try:
        key = check_key(value)
    except InvalidKeyError:
        return
    assert key.encode().decode() == value
    assert 1 <= len(key) <= 256


def test_a_key_is_held_for_a_day_and_returns_the_existing_job_by_default() -> None:
    """S1-9, S1-10, C15."""
    key = Key("k")
    assert key.window == 24 * 3600
    assert key.on_duplicate is OnDuplicate.RETURN


@pytest.mark.parametrize("choice", OnDuplicate)
def test_a_duplicate_is_returned_or_rejected(choice: OnDuplicate) -> None:
    """C15, S3-12."""
    assert parse_on_duplicate(choice.value) is choice
    assert parse_on_duplicate(choice) is choice


@pytest.mark.parametrize(
    "value", ["", "RETURN", "ignore", None, 1, [], pytest.param(10**5_000, id="huge")]
)
def test_any_other_choice_is_refused(value: Any) -> None:
    """C15."""
    with pytest.raises(ConfigurationError, match="on_duplicate"):
        parse_on_duplicate(value)


@pytest.mark.parametrize(
    ("is_live", "window_ends_us", "held"),
    [
        (True, None, True),  # S3-12: while the job is live
        (True, 999, True),  # never shorter than the live job
        (True, 1_001, True),
        (False, None, False),  # S3-13: released at the end
        (False, 999, False),
        (False, 1_000, False),  # the window's end is outside the window
        (False, 1_001, True),  # S1-10: for the window, whatever became of the job
    ],
)
def test_a_key_is_held_while_its_job_is_live_or_its_window_is_open(
    is_live: bool, window_ends_us: int | None, held: bool
) -> None:
    """S1-10, S3-12, S3-13, C15."""
    assert is_held(is_live=is_live, window_ends_us=window_ends_us, now_us=1_000) is held
