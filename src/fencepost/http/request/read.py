"""Reads requests: with limits, strictly, and with reasons that help where one is refused."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from fencepost.core.access.bounds import REQUEST_ID_LENGTH_MAX
from fencepost.core.display import shortened, shown
from fencepost.generators import Returned, begin, rest_of
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import Route
from fencepost.http.request.whole_numbers import is_about_whole_numbers, with_whole_numbers
from fencepost.http.server.bodies import HeldBytes
from fencepost.wire.bodies import PIECE, check_shape
from fencepost.wire.bounds import HTTP_BATCH_MAX, HTTP_BODY_TIMEOUT

Scope = Any
Receive = Any
Headers = dict[bytes, bytes]

_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{REQUEST_ID_LENGTH_MAX}}}", re.ASCII)
_NUMBER = re.compile(r"(-?[0-9]{1,18})(\.0+)?")
_QUERY_PARTS_MAX = 100
_LENGTH_DIGITS_MAX = 40
_JSON = b"application/json"
IS_LOST = "fencepost.is_lost"
"""Where our own server puts into a scope what says whether the client is gone."""


def headers_of(scope: Scope) -> Headers:
    """Return the headers by name; of a repeated one, the first."""
    return dict(reversed(scope["headers"]))


def text_of(headers: Headers, name: bytes) -> str:
    """Return the value of a header; empty if there is none."""
    return str(headers.get(name, b""), "latin-1")


def request_id_of(headers: Headers) -> str | None:
    """Return the id that the client gave the request, if it is safe to log."""
    if b"x-request-id" not in headers:
        return None
    given = text_of(headers, b"x-request-id")
    return given if _REQUEST_ID.fullmatch(given) else None


class Inbox:
    """The body of one request, and whether its sender has hung up."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBytes) -> None:
        self.held = held
        self._receive = receive
        # uvicorn reports a disconnect only to the last of several requests that were sent at once.
        self._is_lost: Callable[[], bool] = scope.get(IS_LOST, bool)
        self._is_read = False
        self._is_gone = False
        self._listening: asyncio.Task[None] | None = None

    async def body(self, limit: int) -> bytes:
        """Return the body; raise HttpError if it is too large, too slow or incomplete."""
        reading = self._read(limit)
        # A small body came with its head: then there is no wait, and no timer.
        waits_for = begin(reading)
        if isinstance(waits_for, Returned):
            data: bytes = waits_for.value
            return data
        try:
            async with asyncio.timeout(HTTP_BODY_TIMEOUT) as timeout:
                with self.held.arriving(timeout):
                    rest = await rest_of(reading, waits_for)
        except TimeoutError:
            raise too_slow(is_cut=self.held.is_cut) from None
        if self.held.is_cut:  # just when the last of it arrived
            raise too_slow(is_cut=True)
        return rest

    async def _read(self, limit: int) -> bytes:
        parts: list[bytes] = []
        try:
            return await self._collect(parts, limit)
        finally:
            # A refusal refers to what was read, by its traceback, until the garbage collector comes
            # by: long after the budget has counted it as gone.
            parts.clear()

    async def _collect(self, parts: list[bytes], limit: int) -> bytes:
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_gone = True
                raise HttpError(
                    "the client closed the connection before the request was complete",
                    code="incomplete_request",
                )
            data: bytes = message.get("body", b"")
            size += len(data)
            if size > limit:
                raise too_large(limit)
            self.held.take(len(data))
            parts.append(data)
            if not message.get("more_body"):
                self._is_read = True
                return b"".join(parts)

    def listen(self) -> None:
        """Keep ``is_gone`` up to date from now on; the body has been read."""
        if self._listening is None and self._is_read:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    def is_gone(self) -> bool:
        """Return whether the client has hung up, as far as is known."""
        return self._is_gone or self._is_lost()

    async def _listen(self) -> None:
        while not self._is_gone:
            message = await self._receive()
            self._is_gone = message["type"] == "http.disconnect"

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.cancel()


def too_slow(*, is_cut: bool) -> HttpError:
    """Return the error of a body that did not arrive in time, or that was cut to make room."""
    return HttpError(
        "the body arrived too slowly, and its room was needed for others"
        if is_cut
        else f"the body did not arrive within {HTTP_BODY_TIMEOUT:g} s",
        code="request_timeout",
    )


def too_large(limit: int) -> HttpError:
    """Return the error of a body over *limit* bytes."""
    error = HttpError(f"the body is over the limit of {limit:,} bytes", code="payload_too_large")
    error.limit = limit
    return error


def announced(headers: Headers, limit: int) -> int:
    """Return the announced size of a body; refuse a large one before it is read."""
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        return 0
    # int() itself refuses numbers of too many digits.
    if len(length) > _LENGTH_DIGITS_MAX or int(length) > limit:
        raise too_large(limit)
    return int(length)


def check_media_type(headers: Headers) -> None:
    """Refuse what is not declared as JSON: browsers send that from any page, unasked."""
    if headers.get(b"content-type") == _JSON and b"content-encoding" not in headers:
        return  # nearly always so
    encoding = text_of(headers, b"content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        # The size of a compressed body is known only after it was unpacked.
        raise HttpError(
            f"send the body uncompressed, without Content-Encoding: {shown(encoding)}",
            code="unsupported_media_type",
        )
    given = text_of(headers, b"content-type")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HttpError(
            f"send Content-Type: application/json, got {shown(given)}",
            code="unsupported_media_type",
        )


class _Probe(msgspec.Struct):
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe)


class BodyReader:
    """Decodes the bodies of a route."""

    def __init__(self, kind: Any, many: Any = None, *, is_batch: bool = False) -> None:
        self._is_batch = is_batch and many is None
        self._decoder = msgspec.json.Decoder(kind)
        self._many = None if many is None else msgspec.json.Decoder(many)

    def read(self, data: bytes) -> Any:
        """Return *data* decoded, or raise HttpError or InvalidPayloadError."""
        items = check_shape(data)
        try:
            # The decoder does not look into raw parts, and so does not check text in them.
            _check_text(data)
            if self._many is not None and _probe.decode(data).items is not msgspec.UNSET:
                check_count(items)
                return self._many.decode(data)
            if self._is_batch:
                check_count(items)
            return self._decoder.decode(data)
        except msgspec.ValidationError as error:
            if is_about_whole_numbers(error):
                return self._read_again(data, error)
            raise HttpError(shortened(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = shortened(str(error))
            raise HttpError(f"the body is not JSON: {why}", code="invalid_json") from None

    def _read_again(self, data: bytes, error: msgspec.ValidationError) -> Any:
        """Decode *data* again, with `3.0` read as 3 where needed, or raise HttpError."""
        is_many = self._many is not None and _probe.decode(data).items is not msgspec.UNSET
        decoder = self._many if is_many and self._many is not None else self._decoder
        try:
            return decoder.decode(with_whole_numbers(data, decoder.type))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise HttpError(shortened(str(error))) from None


def check_count(items: int) -> None:
    """Refuse a batch of too many items before it is decoded."""
    if items > HTTP_BATCH_MAX:
        raise HttpError(
            f"a request may have at most {HTTP_BATCH_MAX:,} jobs or leases, got {items:,}"
        )


def _check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError if it is not UTF-8; in pieces, as text takes up to four times."""
    if data.isascii():
        return
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(data), PIECE):
        decoder.decode(data[start : start + PIECE])
    decoder.decode(b"", final=True)


class QueryReader:
    """Decodes the query strings of a route."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._empty: Any = None
        fields = msgspec.structs.fields(kind)
        self._names = {field.encode_name for field in fields}
        self._lists = {field.encode_name for field in fields if _is_list(field.type)}
        self._numbers = {field.encode_name for field in fields if _is_number(field.type)}

    def read(self, query: bytes) -> Any:
        """Return *query* decoded, or raise HttpError."""
        if not query:
            if self._empty is None:
                self._empty = self._convert({})
            return self._empty
        try:
            pairs = parse_qsl(
                str(query, "ascii"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=_QUERY_PARTS_MAX,
            )
        except ValueError as error:
            why = shortened(str(error))
            raise HttpError(f"the query cannot be read: {why}") from None
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name not in self._names:
                known = ", ".join(sorted(self._names)) or "none"
                raise HttpError(f"there is no parameter {shown(name)}; known are: {known}")
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise HttpError(f"{name} is given twice")
            else:
                given[name] = self._number(name, value)
        return self._convert(given)

    def _number(self, name: str, value: str) -> int | str:
        """Return a number for a field that is one.

        All else stays text: a lax reader takes `null` for nothing, and any number for a time.
        """
        if name in self._numbers and (found := _NUMBER.fullmatch(value)):
            return int(found[1])
        return value

    def _convert(self, given: dict[str, Any]) -> Any:
        try:
            return msgspec.convert(given, self._kind)
        except msgspec.ValidationError as error:
            raise HttpError(shortened(str(error))) from None


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list


def _is_number(kind: Any) -> bool:
    return kind is int or any(_is_number(each) for each in get_args(kind))


def readers(route: Route) -> tuple[QueryReader, BodyReader | None]:
    """Return the readers of a route's query and body."""
    body = BodyReader(*route.bodies, is_batch=route.is_batch) if route.bodies else None
    return QueryReader(route.query), body
