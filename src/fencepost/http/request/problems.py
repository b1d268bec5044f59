"""From an error to its answer: a status, and a problem document (RFC 9457) with a stable code."""

from __future__ import annotations

from typing import Any

from fencepost.core.bounds import HTTP_RETRY_AFTER
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
from fencepost.wire.problem import MEDIA_TYPE as MEDIA_TYPE
from fencepost.wire.problem import Problem as Problem


class HttpError(FencepostError):
    """A request that is refused before anything is asked of the store."""

    code = "invalid_request"
    status = 400

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = type(self).status if status is None else status
        if code is not None:
            self.code = code  # type: ignore[misc]  # of this one alone
        self.headers = headers or {}
        self.limit: int | None = None
        """How large a body may be that was too large."""


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
    # Neither done nor not done: whoever is asked to wait for us says so with this.
    UnknownOutcomeError: 504,
}

# What a store says of itself names hosts and users, and is for the log.
DETAILS: dict[type[StoreError], str] = {
    StoreUnavailableError: "the store cannot be reached at the moment; nothing was done: ask again",
    UnknownOutcomeError: (
        "nobody can tell what became of it: it may have been done. Ask again with the same "
        "idempotency key or lease token, and it is done once; without one, look first"
    ),
    StoreError: "the store cannot do this; the server's log says why, by request id",
}

TITLES = {
    400: "The request cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Wrong method",
    408: "Too slow",
    409: "Not as things stand",
    413: "Too large",
    415: "Wrong media type",
    422: "Not valid",
    429: "Too many requests",
    431: "Headers too large",
    500: "An error of ours",
    503: "Not now",
    504: "The outcome is unknown",
}


def status_of(error: FencepostError) -> int:
    """Return the status that tells of *error*."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status
    return status_of_class(type(error))


def status_of_class(kind: type[FencepostError]) -> int:
    """Return the status that tells of errors of this class."""
    return next((number for each, number in STATUSES.items() if issubclass(kind, each)), 500)


def problem_of(error: FencepostError, request_id: str) -> Problem:
    """Return the problem document of *error*."""
    status = status_of(error)
    extras: dict[str, Any] = {}
    if isinstance(error, DuplicateJobError) and error.existing_id is not None:
        extras["existing"] = error.existing_id
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
    # A setting that makes no sense: here, one of the request's.
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
    """Return what to tell whoever asked."""
    own = (text for kind, text in DETAILS.items() if isinstance(error, kind))
    return next(own, str(error))


def retry_after_of(error: FencepostError) -> float | None:
    """Return in how many seconds it is worth asking again, if it ever is."""
    if isinstance(error, (StoreUnavailableError, UnknownOutcomeError)):
        return HTTP_RETRY_AFTER
    wait: float | None = getattr(error, "retry_after", None)
    return wait
