"""From what a handler raised to an outcome: exactly one category each (S1-80)."""

from __future__ import annotations

import traceback

from msgspec.structs import replace

from fencepost.core.bounds import CODE_LENGTH_MAX, MESSAGE_LENGTH_MAX, TRACEBACK_LENGTH_MAX
from fencepost.core.job.job import Category, Failure
from fencepost.core.job.outcome import Failed, Snoozed, Unreadable
from fencepost.core.values.duration import parse_duration
from fencepost.core.values.skew import UnreadPayload
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


def classify(error: BaseException) -> Failed | Snoozed | Unreadable:
    """Return the outcome of an attempt whose handler raised *error*."""
    match error:
        case Snooze():
            return _classify_snooze(error)
        case TemporaryError():
            return _classify_temporary(error)
        case PermanentError():
            return Failed(describe(error, Category.PERMANENT, code=error.code))
        case UnreadPayload():
            # Of this version of the code, not of the job: another may read it (C47).
            return unreadable(describe(error.error, Category.SYSTEM))
        case InvalidPayloadError():
            # Damaged, or of a job that the handler wanted to submit: as wrong the next time.
            return Failed(describe(error, Category.PERMANENT, code=error.code))
        case MissingKeyError():
            # Of this worker, not of the job: another may have the key, or this one, one day.
            return Failed(describe(error, Category.SYSTEM, code=error.code))
        case TamperedError() | PlainContentError():
            return Failed(describe(error, Category.PERMANENT, code=error.code))
        case MemoryError():
            return Failed(describe(error, Category.SYSTEM, code="out_of_memory"))
        case _:
            return Failed(describe(error, Category.TEMPORARY))


def _classify_snooze(error: Snooze) -> Failed | Snoozed:
    try:
        return Snoozed(parse_duration(error.delay, name="Snooze.delay"))
    except FencepostError as invalid:
        return Failed(describe(invalid, Category.PERMANENT, code="invalid_snooze"))


def _classify_temporary(error: TemporaryError) -> Failed:
    failure = describe(error, Category.TEMPORARY)
    if error.retry_after is None:
        return Failed(failure)
    try:
        return Failed(failure, parse_duration(error.retry_after, name="retry_after"))
    except FencepostError:
        return Failed(failure)


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
    except Exception:  # noqa: BLE001 - a broken __str__ must not take the attempt's outcome away
        text = "(its message cannot be shown)"
    return _storable(text) or type(error).__name__


def _traceback_of(error: BaseException) -> str | None:
    if error.__traceback__ is None:
        return None
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - as above
        return None
    # The end of a traceback says what happened; the beginning, where we called from.
    return _storable(text[-TRACEBACK_LENGTH_MAX:])


def _storable(text: str) -> str:
    """Return *text* without lone surrogates, which no store can encode."""
    return text.encode("utf-8", "replace").decode()


def unreadable(failure: Failure) -> Unreadable:
    """Return the outcome of an attempt whose payload is not understood, *failure* says why."""
    return Unreadable(replace(failure, code=UNREADABLE))


def timed_out(timeout: float) -> Failed:
    """Return the outcome of an attempt that ran past its execution timeout (S1-42)."""
    message = f"ran longer than its timeout of {timeout:g} s"
    return Failed(Failure(Category.TIMEOUT, message, code="execution_timeout"))


def crashed(message: str) -> Failed:
    """Return the outcome of an attempt whose process died under it."""
    return Failed(Failure(Category.SYSTEM, message[:MESSAGE_LENGTH_MAX], code="process_died"))


def not_committed() -> Failed:
    """Return the outcome of an attempt that completed its job, and then took that back."""
    message = "complete_in was called, but its transaction was not committed"
    return Failed(Failure(Category.TEMPORARY, message, code="not_committed"))
