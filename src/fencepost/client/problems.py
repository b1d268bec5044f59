"""From what came of a request to the error that an app would have raised, by its stable code."""

from __future__ import annotations

from functools import cache

import msgspec

from fencepost.client.exchange import HttpReply, Outcome, Request, Unheard, Unreached
from fencepost.core.bounds import CLIENT_RETRY_AFTER_MAX
from fencepost.core.display import shortened
from fencepost.errors import (
    ConfigurationError,
    FencepostError,
    ServerError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from fencepost.wire.problem import Problem

_decode = msgspec.json.Decoder(Problem).decode

ALIASES: dict[str, type[FencepostError]] = {
    # What makes no sense in a request: to whoever called, one of the arguments.
    "invalid_request": ConfigurationError,
    "not_ready": StoreUnavailableError,
    # The server is full: nothing was done, and there is room again in a moment.
    "too_many_bodies": StoreUnavailableError,
    "too_many_connections": StoreUnavailableError,
}
TOO_MANY = 429
UNKNOWN = "it may have been done all the same"


@cache
def kinds() -> dict[str, type[FencepostError]]:
    """Return every exception that a caller can meet, by its code."""
    found: dict[str, type[FencepostError]] = dict(ALIASES)
    waiting: list[type[FencepostError]] = [FencepostError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__ == FencepostError.__module__:
            found.setdefault(kind.code, kind)
    return found


def error_of(outcome: Outcome, request: Request) -> FencepostError | None:
    """Return the error that *outcome* tells of; None if all is well."""
    match outcome:
        case Unreached(reason):
            return StoreUnavailableError(
                f"the server cannot be reached: {reason}; nothing was done"
            )
        case Unheard(reason):
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
            return TooManyRequestsError(wait)  # whoever stands in between has let nothing through
        error = _unread(reply.status, None, "which is no answer of a Fencepost server")
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
    """Return the error of an answer that says nothing we know; from 500 on, not even 'refused'."""
    message = f"the server answered {status}{f' {code}' if code else ''}: {detail}"
    if status >= 500:
        return UnknownOutcomeError(f"{message}; {UNKNOWN}")
    return ServerError(message, status=status, server_code=code)


def _made(kind: type[FencepostError], problem: Problem, request: Request) -> FencepostError:
    """Return an error of *kind* with the server's words, and the fields that the class promises."""
    error = kind.__new__(kind, problem.detail)
    existing = problem.existing or None
    vars(error).update(
        job_id=problem.job_id or None,
        state=problem.state or None,
        existing=existing,
        existing_id=existing,
        culprit=None,
        size=problem.size or len(request.body or b""),
        limit=problem.limit or 0,
        # Of these the wire says nothing but in the message.
        **dict.fromkeys(("type", "key", "name", "key_id", "event"), ""),
    )
    return error


def _seconds(header: str | None) -> float:
    """Return how many seconds a server asks us to wait; 0 if it does not say."""
    try:
        return max(float(header or 0.0), 0.0)
    except ValueError:
        # A date: from something between us and the server, by a clock that is not ours.
        return CLIENT_RETRY_AFTER_MAX


def is_surely_undone(error: FencepostError) -> bool:
    """Tell whether nothing of the request was done, and another try may well be better."""
    return isinstance(error, (StoreUnavailableError, TooManyRequestsError))
