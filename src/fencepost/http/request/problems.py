"""From an error to its answer: a status, and a problem document (RFC 9457) with a stable code.

``codes_of`` lists for the document what a route can be refused with. Codes of errors that other
packages raise come from their classes; those of HTTP itself are in ``OWN``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.core.display import shortened
from fencepost.errors import (
    ConfigurationError,
    CronNotFoundError,
    DuplicateJobError,
    EncryptionError,
    FencepostError,
    ForbiddenError,
    InvalidJobError,
    JobNotFoundError,
    PayloadTooLargeError,
    StaleLeaseError,
    StateConflictError,
    StoreError,
    StoreUnavailableError,
    TokenNotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnknownOutcomeError,
    UnknownTypeError,
    WaitTimeoutError,
)
from fencepost.wire.bounds import HTTP_RETRY_AFTER
from fencepost.wire.problem import MEDIA_TYPE as MEDIA_TYPE
from fencepost.wire.problem import Problem as Problem

if TYPE_CHECKING:
    from fencepost.http.request.route import Route


class HttpError(FencepostError):
    """A request that is refused before the store is used; ``OWN`` has the status of each code."""

    code = "invalid_request"

    def __init__(
        self,
        message: str,
        *,
        code: str = "invalid_request",
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # for this instance
        self.status = _OWN_STATUSES[code] if status is None else status
        self.headers = headers or {}
        self.limit: int | None = None
        """The largest body allowed, if that is why."""


# The first class that an error is an instance of decides.
STATUSES: dict[type[FencepostError], int] = {
    PayloadTooLargeError: 413,
    InvalidJobError: 422,
    UnknownTypeError: 404,
    ConfigurationError: 422,
    DuplicateJobError: 409,
    JobNotFoundError: 404,
    CronNotFoundError: 404,
    TokenNotFoundError: 404,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    TooManyRequestsError: 429,
    StateConflictError: 409,
    StaleLeaseError: 409,
    EncryptionError: 409,
    WaitTimeoutError: 408,
    StoreUnavailableError: 503,
    # The outcome is unknown: gateways say so with this status.
    UnknownOutcomeError: 504,
}

# Messages of a store name hosts and users: they go to the log, and these to the client.
DETAILS: dict[type[StoreError], str] = {
    StoreUnavailableError: "the store cannot be reached now; nothing was done: repeat the request",
    UnknownOutcomeError: (
        "the outcome is unknown; it may have been applied. Repeat the request with the same "
        "idempotency key or lease token, and it is applied once; without one, check first"
    ),
    StoreError: "the store refused this; the server's log says why, by request id",
}

TITLES = {
    400: "The request cannot be read",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Wrong method",
    408: "Too slow",
    409: "Conflict with the present state",
    413: "Too large",
    415: "Wrong media type",
    422: "Not valid",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    503: "Not available now",
    504: "The outcome is unknown",
}


def status_of(error: FencepostError) -> int:
    """Return the status that *error* is answered with."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status
    return status_of_class(type(error))


def status_of_class(kind: type[FencepostError]) -> int:
    """Return the status that errors of this class are answered with."""
    return next((number for each, number in STATUSES.items() if issubclass(kind, each)), 500)


def problem_of(error: FencepostError, request_id: str) -> Problem:
    """Return the problem document of *error*."""
    status = status_of(error)
    extras: dict[str, Any] = {}
    if isinstance(error, DuplicateJobError) and error.existing_id is not None:
        extras["existing"] = error.existing_id
        if error.differs:
            extras["differs"] = error.differs
    for name in ("size", "limit"):
        if isinstance(value := getattr(error, name, None), int):
            extras[name] = value
    for name in ("job_id", "state"):
        value = getattr(error, name, None)
        if value is not None:
            extras[name] = shortened(str(value))
    wait = retry_after_of(error)
    if wait is not None:
        extras["retry_after"] = wait
    # An invalid setting: here, one in the request.
    code = HttpError.code if error.code == ConfigurationError.code else error.code
    return Problem(
        type=f"urn:fencepost:problem:{code}",
        title=TITLES.get(status, "Refused"),
        status=status,
        code=code,
        detail=detail_of(error),
        request_id=request_id,
        **extras,
    )


def detail_of(error: FencepostError) -> str:
    """Return the text for the client."""
    own = (text for kind, text in DETAILS.items() if isinstance(error, kind))
    return next(own, str(error))


def retry_after_of(error: FencepostError) -> float | None:
    """Return after how many seconds a repeat may succeed, if it may."""
    if isinstance(error, (StoreUnavailableError, UnknownOutcomeError)):
        return HTTP_RETRY_AFTER
    wait: float | None = getattr(error, "retry_after", None)
    return wait


class Code(NamedTuple):
    """A code with the status it is answered with."""

    status: int
    name: str
    meaning: str


OWN = (
    Code(400, "invalid_request", "The request is malformed."),
    Code(400, "invalid_json", "The body is not JSON."),
    Code(
        400,
        "incomplete_request",
        "The client closed the connection before the request was complete.",
    ),
    Code(400, "invalid_http", "What was sent is not HTTP/1.1."),
    Code(404, "not_found", "There is no such path."),
    Code(
        405, "method_not_allowed", "The path does not have this method; Allow lists those it has."
    ),
    Code(408, "request_timeout", "The headers or the body took too long to arrive."),
    Code(413, "payload_too_large", "The body is larger than this route accepts."),
    Code(415, "unsupported_media_type", "The body is not declared as JSON, or is compressed."),
    Code(422, "invalid_request", "A parameter or the body is not as this document requires."),
    Code(431, "headers_too_large", "The first line and the headers are too long."),
    Code(500, "internal_error", "A bug in the server; its log has the error by request id."),
    Code(503, "too_many_bodies", "The server holds as many bytes of bodies as it can."),
    Code(503, "too_many_streams", "The server has as many streams open as it can."),
    Code(503, "not_ready", "The store does not answer, or the server is stopping."),
    Code(503, "too_many_connections", "The server has as many connections as it can hold."),
)
_OWN_STATUSES = {code.name: code.status for code in OWN}
"""Of an invalid request the last: 422."""

_ANYWHERE = (
    "invalid_request",
    "incomplete_request",
    "payload_too_large",
    "headers_too_large",
    "internal_error",
)
_WITH_BODY = (
    "invalid_json",
    "request_timeout",
    "unsupported_media_type",
    "invalid_payload",
    "too_many_bodies",
)
_WITH_TOKEN = ("unauthenticated", "forbidden", "rate_limited")
_OF_STORE = ("store_error", "store_unavailable", "unknown_outcome")
_FAMILIES = {"dependency", "encryption", "state_conflict", *_OF_STORE[1:]}
"""Codes that also stand for those of their subclasses."""


def codes_of(route: Route) -> list[Code]:
    """Return every code that *route* can be refused with, by status."""
    names = {*_ANYWHERE, *route.errors}
    if route.body is not None:
        names.update(_WITH_BODY)
    if route.roles:
        names.update(_WITH_TOKEN, _OF_STORE)
    if "{" in route.path:
        names.add("not_found")
    return sorted({code for name in names for code in _named(name)})


def _named(name: str) -> Iterable[Code]:
    """Return the code of this name, and those it stands for; or raise KeyError."""
    found = [code for code in OWN if code.name == name]
    kind = _classes().get(name)
    if kind is not None:
        kinds = _family(kind) if name in _FAMILIES else [kind]
        found += [code for each in kinds if (code := _code_of(each)) is not None]
    if not found:
        raise KeyError(name)
    return found


@cache
def _classes() -> dict[str, type[FencepostError]]:
    return {kind.code: kind for kind in _family(FencepostError) if "code" in vars(kind)}


def _family(kind: type[FencepostError]) -> Iterator[type[FencepostError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _family(each)


def _code_of(kind: type[FencepostError]) -> Code | None:
    """Return the code of an error class; an invalid setting is an invalid request."""
    if kind.code in (ConfigurationError.code, HttpError.code):
        return None
    meaning = (kind.__doc__ or "").partition("\n\n")[0]
    return Code(status_of_class(kind), kind.code, " ".join(meaning.split()))
