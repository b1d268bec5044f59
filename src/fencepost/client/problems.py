"""From the outcome of a request to the error that an app would have raised, by its stable code."""

from __future__ import annotations

from functools import cache

import msgspec

from fencepost.client.transport import HttpReply, NoReply, NotSent, Outcome, Request
from fencepost.core.display import shortened
from fencepost.errors import (
    ConfigurationError,
    FencepostError,
    ServerError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from fencepost.wire.bounds import CLIENT_RETRY_AFTER_MAX
from fencepost.wire.problem import Problem

_decode = msgspec.json.Decoder(Problem).decode

ALIASES: dict[str, type[FencepostError]] = {
    # An invalid request comes from an invalid argument of the caller.
    "invalid_request": ConfigurationError,
    "not_ready": StoreUnavailableError,
    # The server is full: nothing was done, and a later request may succeed.
    "too_many_bodies": StoreUnavailableError,
    "too_many_connections": StoreUnavailableError,
}
TOO_MANY = 429
UNKNOWN = "the outcome is unknown; it may have been applied"


@cache
def kinds() -> dict[str, type[FencepostError]]:
    """Return every exception that a caller can get, by its code."""
    found: dict[str, type[FencepostError]] = dict(ALIASES)
    waiting: list[type[FencepostError]] = [FencepostError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__ == FencepostError.__module__:
            found.setdefault(kind.code, kind)
    return found


def error_of(outcome: Outcome, request: Request) -> FencepostError | None:
    """Return the error of *outcome*; None if it is a success."""
    match outcome:
        case NotSent(reason):
            return StoreUnavailableError(
                f"the server cannot be reached: {reason}; nothing was done"
            )
        case NoReply(reason):
            return UnknownOutcomeError(f"no answer came from the server: {reason}; {UNKNOWN}")
        case HttpReply(status) if 200 <= status < 300:
            return None
        case HttpReply() as reply:
            return _refusal(reply, request)


def _refusal(reply: HttpReply, request: Request) -> FencepostError:
    wait = _seconds(reply.retry_after)
    try:
        problem = _decode(reply.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if reply.status == TOO_MANY:
            return TooManyRequestsError(wait)  # from a proxy, which passed nothing on
        error = _unread(reply.status, None, "this is not an answer of a Fencepost server")
        vars(error)["retry_after"] = wait
        return error
    kind = kinds().get(problem.code)
    if kind is None:
        error = _unread(reply.status, problem.code, shortened(problem.detail))
    else:
        error = _made(kind, problem, request)
    vars(error)["retry_after"] = problem.retry_after or wait
    error.add_note(f"request id {problem.request_id}")
    return error


def _unread(status: int, code: str | None, detail: str) -> FencepostError:
    """Return the error of an unknown answer; from 500 on, it does not even mean a refusal."""
    message = f"the server answered {status}{f' {code}' if code else ''}: {detail}"
    if status >= 500:
        return UnknownOutcomeError(f"{message}; {UNKNOWN}")
    return ServerError(message, status=status, server_code=code)


def _made(kind: type[FencepostError], problem: Problem, request: Request) -> FencepostError:
    """Return an error of *kind* with the server's message and the fields of the class."""
    error = kind.__new__(kind, problem.detail)
    existing = problem.existing or None
    vars(error).update(
        job_id=problem.job_id or None,
        state=problem.state or None,
        existing=existing,
        existing_id=existing,
        differs=tuple(problem.differs or ()),
        failed_dependency=None,
        size=problem.size or len(request.body or b""),
        limit=problem.limit or 0,
        # The wire has these only in the message.
        **dict.fromkeys(("type", "key", "name", "key_id", "event"), ""),
    )
    return error


def _seconds(header: str | None) -> float:
    """Return the seconds of a Retry-After header; 0 if there is none."""
    try:
        return max(float(header or 0.0), 0.0)
    except ValueError:
        # A date, from a proxy whose clock may differ from ours.
        return CLIENT_RETRY_AFTER_MAX


def is_surely_undone(error: FencepostError) -> bool:
    """Return whether nothing was done, and a repeat may succeed."""
    return isinstance(error, (StoreUnavailableError, TooManyRequestsError))
