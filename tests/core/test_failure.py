"""From what a handler raised to an outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import CODE_LENGTH_MAX, MESSAGE_LENGTH_MAX, TRACEBACK_LENGTH_MAX
from fencepost.core.job.failure import classify, crashed, describe, timed_out
from fencepost.core.job.job import Category
from fencepost.core.job.outcome import Failed, Snoozed
from fencepost.errors import InvalidPayloadError, PermanentError, Snooze, TemporaryError


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def raised(error: BaseException) -> BaseException:
    """Return *error* with a traceback, as a handler leaves it."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def failed(error: BaseException) -> Failed:
    outcome = classify(error)
    assert isinstance(outcome, Failed)
    return outcome


@pytest.mark.parametrize(
    ("error", "category", "code"),
    [
        (TemporaryError("no"), Category.TEMPORARY, None),
        (PermanentError("no"), Category.PERMANENT, None),
        (PermanentError("no", code="missing"), Category.PERMANENT, "missing"),
        (InvalidPayloadError("no"), Category.PERMANENT, "invalid_payload"),
        (MemoryError("no"), Category.SYSTEM, "out_of_memory"),
        (ValueError("no"), Category.TEMPORARY, None),
        (TimeoutError("no"), Category.TEMPORARY, None),
    ],
)
def test_every_failure_has_exactly_one_category(
    error: BaseException, category: Category, code: str | None
) -> None:
    """S1-80, S1-81, S1-82, S1-86, S1-87, S1-89."""
    failure = failed(error).failure
    assert (failure.category, failure.code, failure.message) == (category, code, "no")


@pytest.mark.parametrize(("given_", "seconds"), [(None, None), (5, 5.0), ("1m", 60.0), (0, 0.0)])
def test_a_temporary_error_says_how_long_to_wait_at_least(
    given_: Any, seconds: float | None
) -> None:
    """S1-88, C34."""
    assert failed(TemporaryError("no", retry_after=given_)).retry_after == seconds


@pytest.mark.parametrize("given_", [-1, "soon", float("nan"), float("inf"), object()])
def test_a_wait_that_makes_no_sense_leaves_the_backoff(given_: Any) -> None:
    """S1-88: the handler failed for another reason, and that is the one to keep."""
    outcome = failed(TemporaryError("no", retry_after=given_))
    assert outcome.retry_after is None
    assert outcome.failure.message == "no"


def test_a_snooze_is_no_failure() -> None:
    """S1-14."""
    assert classify(Snooze("5m")) == Snoozed(300.0)


@pytest.mark.parametrize("delay", [-1, "soon", float("inf"), None])
def test_a_snooze_that_makes_no_sense_fails_for_good(delay: Any) -> None:
    """S1-82: it would make no more sense the next time."""
    failure = failed(Snooze(delay)).failure
    assert (failure.category, failure.code) == (Category.PERMANENT, "invalid_snooze")


def test_what_is_stored_names_the_exception_and_where_it_was_raised() -> None:
    """S3-22."""
    failure = describe(raised(KeyError("id")), Category.TEMPORARY)
    assert failure.exception == "builtins.KeyError"
    assert failure.traceback is not None
    assert "in raised" in failure.traceback
    assert describe(KeyError("id"), Category.TEMPORARY).traceback is None


def test_what_is_stored_is_bounded_and_keeps_the_end_of_the_traceback() -> None:
    """S3-22."""
    failure = describe(raised(ValueError("x" * 100_000)), Category.PERMANENT, code="c" * 1_000)
    assert len(failure.message) == MESSAGE_LENGTH_MAX
    assert failure.code == "c" * CODE_LENGTH_MAX
    assert failure.traceback is not None
    assert len(failure.traceback) == TRACEBACK_LENGTH_MAX
    assert failure.traceback.endswith("xxx\n")


def test_an_exception_without_a_message_is_known_by_its_name() -> None:
    """S3-22."""
    assert describe(ValueError(), Category.TEMPORARY).message == "ValueError"


def test_an_exception_that_cannot_be_shown_is_a_failure_all_the_same() -> None:
    """S1-86."""
    failure = failed(raised(Unprintable())).failure
    assert failure.category is Category.TEMPORARY
    assert failure.message == "(its message cannot be shown)"


def test_a_traceback_that_cannot_be_written_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-86: it must not take the outcome away."""

    def broken(error: BaseException) -> list[str]:
        raise RuntimeError("no")

    monkeypatch.setattr("traceback.TracebackException.from_exception", broken)
    assert describe(raised(ValueError("no")), Category.TEMPORARY).traceback is None


@given(st.text(st.characters()))
def test_any_message_can_be_stored(message: str) -> None:
    """S1-92: lone surrogates among them."""
    failure = failed(raised(ValueError(message))).failure
    assert failure.message.encode()
    assert (failure.traceback or "").encode()


def test_an_attempt_that_ran_too_long_is_a_timeout() -> None:
    """S1-42, S1-57, C19."""
    failure = timed_out(2.5).failure
    assert (failure.category, failure.code) == (Category.TIMEOUT, "execution_timeout")
    assert failure.message == "ran longer than its timeout of 2.5 s"


def test_an_attempt_whose_process_died_is_a_system_failure() -> None:
    """S1-85."""
    failure = crashed("killed by signal 9" + "!" * 10_000).failure
    assert (failure.category, failure.code) == (Category.SYSTEM, "process_died")
    assert len(failure.message) == MESSAGE_LENGTH_MAX
