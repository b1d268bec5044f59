"""From what a handler raised to an outcome: exactly one category each (S1-80)."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from fencepost.core.bounds import CODE_LENGTH_MAX, MESSAGE_LENGTH_MAX, TRACEBACK_LENGTH_MAX
from fencepost.core.job.job import Attempt, Category, Failure
from fencepost.core.job.outcome import Failed, Snoozed, Unreadable
from fencepost.core.job.retryable import ExceptionRule
from fencepost.core.values.signature import UnreadPayload
from fencepost.core.values.times import parse_duration
from fencepost.errors import (
    FencepostError,
    InvalidPayloadError,
    MissingKeyError,
    PermanentError,
    PlainContentError,
    Snooze,
    TamperedError,
    TemporaryError,
)

UNREADABLE = "unreadable_payload"
NOT_RETRYABLE = "not_retryable"
_PACKAGE = __file__.rpartition("core")[0]
"""Where our own code lies."""

# Dead letters that an outage explains: every attempt failed while some service was away. For them
# ``fencepost doctor`` recommends ``Retry.patient()``. The rule goes by the name of the exception's
# class, which is all that a store keeps of it.
LETTERS_LOOKED_AT = 50
"""The newest dead letters, which are searched for an outage."""
OUTAGE_AGE = 86_400.0
"""Seconds. Older dead letters say nothing about the present settings."""
OUTAGE_SPAN = 30.0
"""Seconds from the first attempt to the last, in which an outage seldom ends."""

OUTAGE_WORDS = ("connect", "timeout", "unavailable")
"""Parts of class names, in lower case: ConnectionError, ReadTimeout, ServiceUnavailable, …"""
OUTAGE_NAMES = frozenset(
    [
        "BrokenPipeError",
        "InterfaceError",
        "MaxRetryError",
        "OperationalError",
        "URLError",
        "gaierror",
    ]
)
"""Class names of the standard library, of database drivers (DB-API) and of urllib3."""


def classify(
    error: BaseException, rule: ExceptionRule | None = None
) -> Failed | Snoozed | Unreadable:
    """Return the outcome of an attempt whose handler raised *error*.

    *rule* says which exceptions its task retries, if not all.
    """
    match error:
        case Snooze():
            return _classify_snooze(error)
        case TemporaryError():
            return _classify_temporary(error)
        case UnreadPayload():
            # This version of the code cannot read it; another one may (C47).
            return unreadable(describe(error.error, Category.SYSTEM))
        case PermanentError() | InvalidPayloadError() | TamperedError() | PlainContentError():
            # A payload is invalid if it is damaged, or that of a job which the handler submits.
            return Failed(describe(error, Category.PERMANENT, code=error.code))
        case MissingKeyError():
            # Another worker may have the key, or this one later.
            return Failed(describe(error, Category.SYSTEM, code=error.code))
        case MemoryError() if rule is None or not rule.forbids(error):
            return Failed(describe(error, Category.SYSTEM, code="out_of_memory"))
        case _ if rule is None or rule.allows(error):
            return Failed(describe(error, Category.TEMPORARY))
        case _:
            return Failed(describe(error, Category.PERMANENT, code=NOT_RETRYABLE))


def _classify_snooze(error: Snooze) -> Failed | Snoozed:
    try:
        return Snoozed(parse_duration(error.delay, name="Snooze.delay"))
    except FencepostError as invalid:
        return Failed(describe(invalid, Category.PERMANENT, code="invalid_snooze"))


def _classify_temporary(error: TemporaryError) -> Failed:
    retry_after = None
    if error.retry_after is not None:
        with suppress(FencepostError):
            retry_after = parse_duration(error.retry_after, name="retry_after")
    return Failed(describe(error, Category.TEMPORARY), retry_after)


def describe(error: BaseException, category: Category, *, code: str | None = None) -> Failure:
    """Return *error* as it is stored: bounded, and without the payload."""
    kind = type(error)
    return Failure(
        category=category,
        message=_text_of(error)[:MESSAGE_LENGTH_MAX],
        code=None if code is None else _storable(str(code))[:CODE_LENGTH_MAX],
        exception=f"{kind.__module__}.{kind.__qualname__}",
        traceback=_traceback_of(error),
    )


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not prevent an outcome
        text = "(its message cannot be shown)"
    return _storable(text) or type(error).__name__


def _traceback_of(error: BaseException) -> str | None:
    if error.__traceback__ is None:
        return None
    try:
        shown = traceback.TracebackException.from_exception(error)
        _leave_out_ours(shown)
        text = "".join(shown.format())
    except Exception:  # noqa: BLE001 - as above
        return None
    # The end of a traceback says what happened; the beginning, where we called from.
    return _storable(text[-TRACEBACK_LENGTH_MAX:])


def _leave_out_ours(shown: traceback.TracebackException) -> None:
    """Let the stack begin in the handler, not in the worker that called it."""
    frames = shown.stack
    while len(frames) > 1 and frames[0].filename.startswith(_PACKAGE):
        del frames[0]


def _storable(text: str) -> str:
    """Return *text* without lone surrogates, which no store can encode."""
    return text.encode("utf-8", "replace").decode()


def unreadable(failure: Failure) -> Unreadable:
    """Return the outcome of an attempt whose payload cannot be read; *failure* says why."""
    return Unreadable(replace(failure, code=UNREADABLE))


def timed_out(timeout: float) -> Failed:
    """Return the outcome of an attempt that ran past its execution timeout (S1-42)."""
    message = f"ran longer than its timeout of {timeout:g} s"
    return Failed(Failure(Category.TIMEOUT, message, code="execution_timeout"))


def crashed(message: str) -> Failed:
    """Return the outcome of an attempt whose process died under it."""
    return Failed(Failure(Category.SYSTEM, message[:MESSAGE_LENGTH_MAX], code="process_died"))


def not_committed() -> Failed:
    """Return the outcome of an attempt whose completing transaction was not committed."""
    message = "complete_in was called, but its transaction was not committed"
    return Failed(Failure(Category.TEMPORARY, message, code="not_committed"))


def is_outage(failure: Failure) -> bool:
    """Return whether the handler raised an error about a connection, by the name of its class."""
    if failure.category is not Category.TEMPORARY or failure.exception is None:
        return False
    name = failure.exception.rpartition(".")[2]
    return name in OUTAGE_NAMES or any(word in name.lower() for word in OUTAGE_WORDS)


def is_brief(attempts: Sequence[Attempt] | None) -> bool:
    """Return whether there were several attempts, all of them within a few seconds."""
    if attempts is None or len(attempts) < 2:
        return False  # Retry.none() is a choice
    first, last = attempts[0], attempts[-1]
    ended_at = last.ended_at or last.started_at
    return (ended_at - first.started_at).total_seconds() <= OUTAGE_SPAN
