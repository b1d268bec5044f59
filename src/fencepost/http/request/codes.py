"""Every code that a problem document can have, with its status and what it means.

Those of errors that others raise come from their classes; here are the ones of HTTP's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from fencepost.errors import ConfigurationError, FencepostError
from fencepost.http.request.problems import HttpError, status_of_class
from fencepost.http.routes.route import Route


class Code(NamedTuple):
    """A code as it is answered with one status."""

    status: int
    name: str
    meaning: str


OWN = (
    Code(400, "invalid_request", "The request makes no sense as it is."),
    Code(400, "invalid_json", "The body is not JSON."),
    Code(400, "incomplete_request", "The request broke off."),
    Code(400, "invalid_http", "What was sent is not HTTP/1.1."),
    Code(404, "not_found", "There is nothing at this path."),
    Code(405, "method_not_allowed", "The path has no such method; Allow says which it has."),
    Code(408, "request_timeout", "The headers or the body took too long to arrive."),
    Code(413, "payload_too_large", "The body is larger than this route takes."),
    Code(415, "unsupported_media_type", "The body is not called JSON, or is compressed."),
    Code(422, "invalid_request", "A parameter or the body is not as this document says."),
    Code(431, "headers_too_large", "The first line and the headers are too long."),
    Code(500, "internal_error", "An error of ours; the server's log has it by request id."),
    Code(503, "too_many_bodies", "The server holds as much of requests' bodies as it can."),
    Code(503, "too_many_streams", "This server keeps up as many streams as it can."),
    Code(503, "not_ready", "The store does not answer, or the server is stopping."),
    Code(503, "too_many_connections", "The server has as many connections as it can hold."),
)

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
"""Codes that stand for those of their kinds too."""


def codes_of(route: Route) -> list[Code]:
    """Return all that *route* can be refused with, by status."""
    names = {*_ANYWHERE, *route.errors}
    if route.body is not None:
        names.update(_WITH_BODY)
    if route.roles:
        names.update(_WITH_TOKEN, _OF_STORE)
    if "{" in route.path:
        names.add("not_found")
    return sorted({code for name in names for code in _named(name)})


def _named(name: str) -> Iterable[Code]:
    """Return the code of this name, and of its kinds if it stands for them; or raise KeyError."""
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
    """Return how an error is answered; a setting that makes no sense is an invalid request."""
    if kind.code in (ConfigurationError.code, HttpError.code):
        return None
    meaning = (kind.__doc__ or "").partition("\n\n")[0]
    return Code(status_of_class(kind), kind.code, " ".join(meaning.split()))
