"""Which exceptions are retried, by class."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.job.failure import classify
from fencepost.core.job.job import Category
from fencepost.core.job.outcome import Failed, Snoozed
from fencepost.core.job.policy import Retry
from fencepost.core.job.retryable import ExceptionRule, check_importable
from fencepost.errors import ConfigurationError, PermanentError, Snooze, TemporaryError

REFUSED = ConnectionRefusedError("no")
"""A subclass of ConnectionError, which is one of OSError."""


@pytest.mark.parametrize(
    ("retry", "error", "is_retried"),
    [
        (Retry(), ValueError(), True),
        (Retry(on=ConnectionError), REFUSED, True),
        (Retry(on=(ConnectionError, KeyError)), KeyError(), True),
        (Retry(on=[ConnectionError]), ValueError(), False),
        (Retry(on=[ConnectionError]), OSError(), False),
        (Retry(on=()), ValueError(), False),
        (Retry(never=ValueError), UnicodeDecodeError("utf-8", b"", 0, 1, "no"), False),
        (Retry(never=(ValueError, KeyError)), REFUSED, True),
        (Retry(on=(OSError,), never=(ConnectionError,)), REFUSED, False),
        (Retry(on=(OSError,), never=(ConnectionError,)), OSError(), True),
        (Retry(on=(ConnectionError,), never=(OSError,)), REFUSED, False),
        # What no class of a handler decides.
        (Retry(on=()), TemporaryError(), True),
        (Retry(never=(Exception,)), TemporaryError(), True),
        (Retry(on=(Exception,)), PermanentError(), False),
        (Retry.patient(on=KeyError), ValueError(), False),
        (Retry.fast(never=KeyError), ValueError(), True),
        # A group is what its members are.
        (Retry(on=OSError), ExceptionGroup("two", [REFUSED, TimeoutError()]), True),
        (Retry(on=OSError), ExceptionGroup("two", [REFUSED, KeyError()]), False),
        (Retry(on=OSError), ExceptionGroup("a", [ExceptionGroup("b", [REFUSED])]), True),
        (Retry(on=ExceptionGroup), ExceptionGroup("one", [KeyError()]), True),
        (Retry(never=OSError), ExceptionGroup("two", [KeyError(), REFUSED]), False),
        (Retry(on=Exception, never=OSError), ExceptionGroup("one", [REFUSED]), False),
    ],
)
def test_a_class_decides_whether_an_exception_is_retried(
    retry: Retry, error: Exception, is_retried: bool
) -> None:
    outcome = classify(error, retry.rule)
    assert isinstance(outcome, Failed)
    expected = Category.TEMPORARY if is_retried else Category.PERMANENT
    assert outcome.failure.category is expected
    if not is_retried and not isinstance(error, PermanentError):
        assert outcome.failure.code == "not_retryable"


def test_too_little_memory_is_the_systems_unless_it_is_named() -> None:
    outcome = classify(MemoryError(), Retry(on=KeyError).rule)
    assert isinstance(outcome, Failed)
    assert outcome.failure.category is Category.SYSTEM
    outcome = classify(MemoryError(), Retry(never=MemoryError).rule)
    assert isinstance(outcome, Failed)
    assert outcome.failure.category is Category.PERMANENT


def test_a_snooze_is_no_failure() -> None:
    assert classify(Snooze(5), Retry(on=()).rule) == Snoozed(5.0)


@pytest.mark.parametrize("name", ["on", "never"])
@pytest.mark.parametrize(
    "wrong",
    ["ConnectionError", ConnectionError("no"), int, 5, (KeyError, "x"), BaseException, SystemExit],
)
def test_what_is_no_exception_class_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"Retry\({name}=…\) takes exception classes"):
        Retry(**{name: wrong})


@pytest.mark.parametrize("signal", [TemporaryError, PermanentError, Snooze])
def test_what_says_itself_how_it_is_treated_is_refused(signal: type[Exception]) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot list {signal.__name__}"):
        Retry(never=signal)


def test_retries_that_differ_in_their_classes_are_not_equal() -> None:
    assert Retry(on=KeyError) == Retry(on=[KeyError]) != Retry()
    assert Retry(never=()) == Retry()


def test_a_child_process_must_be_able_to_import_the_classes() -> None:
    class LocalError(Exception): ...

    check_importable(ExceptionRule((KeyError, PermanentError), (ConfigurationError,)))
    with pytest.raises(ConfigurationError, match="LocalError is not"):
        check_importable(ExceptionRule(None, (LocalError,)))
