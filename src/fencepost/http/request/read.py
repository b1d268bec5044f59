"""Reads requests: bounded, strict, and refused with a reason that helps."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from fencepost.core.bounds import HTTP_BATCH_MAX, HTTP_BODY_TIMEOUT, REQUEST_ID_LENGTH_MAX
from fencepost.core.display import shortened, shown
from fencepost.http.request.problems import HttpError
from fencepost.http.request.whole_numbers import is_about_whole_numbers, with_whole_numbers
from fencepost.http.routes.route import OneOrMany, Route
from fencepost.http.server.bodies import HeldBytes
from fencepost.wire.shape import PIECE, check_shape
from fencepost.worker.run.relay import rest_of

Scope = Any
Receive = Any
Headers = dict[bytes, bytes]

_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{REQUEST_ID_LENGTH_MAX}}}", re.ASCII)
_NUMBER = re.compile(r"(-?[0-9]{1,18})(\.0+)?")
_QUERY_PARTS_MAX = 100
_LENGTH_DIGITS_MAX = 40
_JSON = b"application/json"


def headers_of(scope: Scope) -> Headers:
    """Return the headers by name; of one that is there twice, the first."""
    return dict(reversed(scope["headers"]))


def text_of(headers: Headers, name: bytes) -> str:
    """Return the value of a header; of one that is not there, nothing."""
    return str(headers.get(name, b""), "latin-1")


def request_id_of(headers: Headers) -> str | None:
    """Return the id that the caller gave the request, if it is fit to be logged."""
    if b"x-request-id" not in headers:
        return None
    given = text_of(headers, b"x-request-id")
    return given if _REQUEST_ID.fullmatch(given) else None


class Inbox:
    """The body of one request, and the news that its sender has hung up."""

    def __init__(self, receive: Receive, held: HeldBytes) -> None:
        self.held = held
        self._receive = receive
        self._is_read = False
        self._is_gone = False
        self._listening: asyncio.Task[None] | None = None

    async def body(self, limit: int) -> bytes:
        """Return the body, or raise: too large, too slow, no room for it, or broken off."""
        reading = self._read(limit)
        try:
            # A small body came with its head: then there is nothing to wait for, and no timer.
            waits_for = reading.send(None)
        except StopIteration as stop:
            data: bytes = stop.value
            return data
        try:
            async with asyncio.timeout(HTTP_BODY_TIMEOUT) as timeout:
                with self.held.arriving(timeout):
                    rest: bytes = await rest_of(reading, waits_for)
        except TimeoutError:
            raise too_slow(is_cut=self.held.is_cut) from None
        if self.held.is_cut:  # in the moment in which the last of it came
            raise too_slow(is_cut=True)
        return rest

    async def _read(self, limit: int) -> bytes:
        message = await self._receive()
        data: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body"):
            self._is_read = True
            self.held.take(len(_bounded(data, limit)))
            return data
        parts, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                self._is_gone = True
                raise HttpError("the request broke off", code="incomplete_request")
            data = message.get("body", b"")
            size += len(data)
            if size > limit:
                raise too_large(limit)
            self.held.take(len(data))
            parts.append(data)
            if not message.get("more_body"):
                self._is_read = True
                return b"".join(parts)
            message = await self._receive()

    def listen(self) -> None:
        """Have ``is_gone`` know when whoever asked hangs up; the body has been read."""
        if self._listening is None and self._is_read:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    def is_gone(self) -> bool:
        """Tell whether whoever asked has hung up, as far as is known."""
        return self._is_gone

    async def _listen(self) -> None:
        while not self._is_gone:
            message = await self._receive()
            self._is_gone = message["type"] == "http.disconnect"

    def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.cancel()


def _bounded(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise too_large(limit)
    return data


def too_slow(*, is_cut: bool) -> HttpError:
    """Return the error of a body that did not arrive in time, or held room that others needed."""
    return HttpError(
        "the body came too slowly while others needed the room that it takes"
        if is_cut
        else f"the body did not arrive within {HTTP_BODY_TIMEOUT:g} s",
        status=408,
        code="request_timeout",
    )


def too_large(limit: int) -> HttpError:
    """Return the error of a body over *limit* bytes."""
    error = HttpError(
        f"the body is over the limit of {limit:,} bytes", status=413, code="payload_too_large"
    )
    error.limit = limit
    return error


def announced(headers: Headers, limit: int) -> int:
    """Return how large a body says that it is; refuse one that is too large before it is read."""
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        return 0
    # One of many digits is refused for its length: int() of it may be refused too.
    if len(length) > _LENGTH_DIGITS_MAX or int(length) > limit:
        raise too_large(limit)
    return int(length)


def check_media_type(headers: Headers) -> None:
    """Refuse what is not called JSON: a browser sends such from any page, and asks nobody first."""
    if headers.get(b"content-type") == _JSON and b"content-encoding" not in headers:
        return  # nearly always
    encoding = text_of(headers, b"content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        # What a compressed body grows to, nobody knows before it has.
        raise HttpError(
            f"send the body as it is, without Content-Encoding: {shown(encoding)}",
            status=415,
            code="unsupported_media_type",
        )
    given = text_of(headers, b"content-type")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HttpError(
            f"write Content-Type: application/json, got {shown(given)}",
            status=415,
            code="unsupported_media_type",
        )


class _Probe(msgspec.Struct):
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_probe = msgspec.json.Decoder(_Probe)


class BodyReader:
    """Turns bytes into what a route takes."""

    def __init__(self, kind: Any, *, is_batch: bool = False) -> None:
        is_either = isinstance(kind, OneOrMany)
        self._is_batch = is_batch and not is_either
        self._decoder = msgspec.json.Decoder(kind.one if is_either else kind)
        self._many = msgspec.json.Decoder(kind.many) if is_either else None

    def read(self, data: bytes) -> Any:
        """Return what is in *data*, or raise HttpError or InvalidPayloadError."""
        items = check_shape(data)
        try:
            # Raw parts are not looked into by the decoder, so that no text in them is checked.
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
            raise HttpError(shortened(str(error)), status=422, code="invalid_request") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = shortened(str(error))
            raise HttpError(f"the body is not JSON: {why}", code="invalid_json") from None

    def _read_again(self, data: bytes, error: msgspec.ValidationError) -> Any:
        """Return what is in *data*, `3.0` read as 3 where that is wanted; or raise HttpError."""
        is_many = self._many is not None and _probe.decode(data).items is not msgspec.UNSET
        decoder = self._many if is_many and self._many is not None else self._decoder
        try:
            return decoder.decode(with_whole_numbers(data, decoder.type))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise HttpError(shortened(str(error)), status=422, code="invalid_request") from None


def check_count(items: int) -> None:
    """Refuse a batch for its number before it is decoded."""
    if items > HTTP_BATCH_MAX:
        raise HttpError(
            f"a request has at most {HTTP_BATCH_MAX:,} jobs or leases, got {items:,}", status=422
        )


def _check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError if it is no UTF-8; piece by piece, as text takes up to fourfold."""
    if data.isascii():
        return
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(data), PIECE):
        decoder.decode(data[start : start + PIECE])
    decoder.decode(b"", final=True)


class QueryReader:
    """Turns a query string into the struct that a route takes."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._empty: Any = None
        fields = msgspec.structs.fields(kind)
        self._names = {field.encode_name for field in fields}
        self._lists = {field.encode_name for field in fields if _is_list(field.type)}
        self._numbers = {field.encode_name for field in fields if _is_number(field.type)}

    def read(self, query: bytes) -> Any:
        """Return what the query says, or raise HttpError."""
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
            raise HttpError(f"the query cannot be read: {why}", status=422) from None
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name not in self._names:
                known = ", ".join(sorted(self._names)) or "none"
                raise HttpError(
                    f"no parameter is called {shown(name)}; there are: {known}", status=422
                )
            if name in self._lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise HttpError(f"{name} is given twice", status=422)
            else:
                given[name] = self._number(name, value)
        return self._convert(given)

    def _number(self, name: str, value: str) -> int | str:
        """Return a number where one is meant.

        All that is text in a query is read as such: a lax reader takes `null` for nothing, and any
        number for a time.
        """
        if name in self._numbers and (found := _NUMBER.fullmatch(value)):
            return int(found[1])
        return value

    def _convert(self, given: dict[str, Any]) -> Any:
        try:
            return msgspec.convert(given, self._kind)
        except msgspec.ValidationError as error:
            raise HttpError(shortened(str(error)), status=422) from None


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _is_number(kind: Any) -> bool:
    return kind is int or any(_is_number(each) for each in get_args(kind))


def readers(route: Route) -> tuple[QueryReader, BodyReader | None]:
    """Return what reads the requests of a route."""
    if route.body is None:
        return QueryReader(route.query), None
    return QueryReader(route.query), BodyReader(route.body, is_batch=route.is_batch)
