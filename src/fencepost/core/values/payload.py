"""Payloads and results as bytes: JSON by default, or binary as given. Never interpreted (S1-93)."""

from __future__ import annotations

import base64
import ipaddress
import math
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from fencepost.core.bounds import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from fencepost.core.display import shortened, shown
from fencepost.core.encryption import shown_envelope, unreadable
from fencepost.core.job.job import Body, Encoding
from fencepost.core.values.names import check_count
from fencepost.errors import (
    InvalidJobError,
    InvalidPayloadError,
    PayloadTooLargeError,
    PermanentError,
)

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

BYTES_LIKE = (bytes, bytearray, memoryview)


_ADDRESSES = (
    *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
    *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
)


def is_text_type(kind: type) -> bool:
    """Return whether *kind* travels as text: paths, addresses, and the URLs of Pydantic."""
    is_path = kind.__module__.partition(".")[0] == "pathlib" and hasattr(kind, "__fspath__")
    return is_path or issubclass(kind, _ADDRESSES) or hasattr(kind, "unicode_string")


def _encode_foreign(value: Any) -> Any:
    """Encode what msgspec does not know: Pydantic models, and types that travel as text."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_text_type(type(value)):
        return str(value)
    raise NotImplementedError(f"{type(value).__qualname__} has no JSON form")


def _encode_unread(value: Any) -> Any:
    """Encode the same and, as nothing, JSON that is passed on unread: it has no such floats."""
    return None if isinstance(value, msgspec.Raw) else _encode_foreign(value)


def _decode_foreign(kind: type, value: Any) -> Any:
    if kind is object:
        return value
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if isinstance(kind, type) and is_text_type(kind):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return kind(value)
    raise NotImplementedError(f"cannot read {kind.__qualname__} from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
_any_decoder = msgspec.json.Decoder()
_in_order = msgspec.json.Encoder(order="sorted").encode

COMPARED_BYTES_MAX = 16_384
"""The largest payload of which is said in what it differs from another."""
DIFFERENCES_MAX = 10
"""How many fields are named in which two payloads differ."""


def decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder that checks what it reads against *kind*."""
    return msgspec.json.Decoder(kind, dec_hook=_decode_foreign)


def convert(value: Any, kind: Any) -> Any:
    """Return decoded *value* as a *kind*, or raise ValidationError."""
    return msgspec.convert(value, kind, dec_hook=_decode_foreign)


NULL = Body(b"null")
"""What most handlers return."""


def encode(value: Any) -> Body:
    """Return *value* as a body: bytes as they are, all else as JSON."""
    if value is None:
        return NULL
    if isinstance(value, BYTES_LIKE):
        return Body(bytes(value), Encoding.BINARY)
    return encode_json(value)


def encode_json(value: Any) -> Body:
    """Return *value* as JSON, or raise InvalidPayloadError if JSON cannot hold it exactly."""
    try:
        data = _encoder.encode(value)
    except (NotImplementedError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidPayloadError(f"cannot be written as JSON: {error}") from None
    # msgspec writes NaN and infinities as null, which would come back as None.
    if b"null" in data and has_non_finite(value):
        raise InvalidPayloadError("NaN and infinity have no JSON form; submit None or text instead")
    return Body(data)


def has_non_finite(value: Any) -> bool:
    """Return whether *value* contains a float that JSON cannot hold."""
    stack = [msgspec.to_builtins(value, enc_hook=_encode_unread, str_keys=True)]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return False


def encode_result(value: Any) -> Body:
    """Return what a handler returned, or raise PermanentError: a retry would do the same."""
    if value is None:
        return NULL
    try:
        return check_size(encode(value), RESULT_BYTES_MAX)
    except InvalidJobError as error:
        raise PermanentError(f"the result {error}", error, code="invalid_result") from None


def decode(body: Body) -> Any:
    """Return the value in *body*, or raise InvalidPayloadError if its bytes are corrupt.

    Raises EncryptionError for one that could not be decrypted.
    """
    if body.encoding is Encoding.BINARY:
        return body.data
    if body.encoding is Encoding.ENCRYPTED:
        raise unreadable(body)
    try:
        return _any_decoder.decode(body.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPayloadError(f"not valid JSON: {error}") from None


class UnreadableValue(msgspec.Struct, frozen=True):
    """Stands for a value that cannot be read here: its key is missing, or its bytes are corrupt."""

    reason: str


def value_of(body: Body) -> Any:
    """Return the value in *body*, or an UnreadableValue: looking at a job never fails."""
    if body.encoding is Encoding.ENCRYPTED:
        return UnreadableValue(shown_envelope(body.data))
    try:
        return decode(body)
    except InvalidPayloadError as error:
        return UnreadableValue(str(error))


def body_fields(name: str, body: Body | None, *, is_raw: bool = False) -> dict[str, Any]:
    """Return *body* as a field for JSON: its value under *name*, or, with *is_raw*, its own text.

    Bytes, and JSON that is corrupt, are ``…_base64``. One that cannot be decrypted here is
    ``…_encrypted``, with the id of the key that is needed.
    """
    if body is None:
        return {name: None}
    if body.encoding is Encoding.ENCRYPTED:
        return {f"{name}_encrypted": shown_envelope(body.data)}
    value = value_of(body)
    if body.encoding is Encoding.BINARY or isinstance(value, UnreadableValue):
        return {f"{name}_base64": base64.b64encode(body.data).decode()}
    return {name: msgspec.Raw(body.data) if is_raw else value}


def differences(held: Body | None, given: Body) -> tuple[str, ...] | None:
    """Return the paths of the top-level fields in which two payloads differ, the first of them.

    Empty if they are the same: neither the order of fields nor spaces count. None if the *held* one
    cannot be read. If *given* is encrypted, the store was asked that has no keys: also empty, and
    the wrapper around it compares. Large ones are compared byte by byte, since a batch may have
    thousands of them, and its transaction is open.
    """
    if held == given or given.encoding is Encoding.ENCRYPTED:
        return ()
    if held is None or held.encoding is Encoding.ENCRYPTED:
        return None
    if max(len(held.data), len(given.data)) > COMPARED_BYTES_MAX:
        return ("$",)
    if isinstance(was := value_of(held), UnreadableValue):
        return None
    now = decode(given)
    if not (isinstance(was, dict) and isinstance(now, dict)):
        is_same = held.encoding is given.encoding and _in_order(was) == _in_order(now)
        return () if is_same else ("$",)
    names = sorted(was.keys() | now.keys())
    differing = (name for name in names if _field(was, name) != _field(now, name))
    return tuple(map(_path, islice(differing, DIFFERENCES_MAX)))


def _field(value: dict[str, Any], name: str) -> bytes | None:
    # As text: in Python, 1 equals True and 1.0.
    return _in_order(value[name]) if name in value else None


def _path(name: str) -> str:
    return f"$.{shortened(name)}" if name.isidentifier() else f"$[{shown(name)}]"


def decode_result(body: Body, kind: Any) -> Any:
    """Return a result as its task's annotation says, or as plain JSON if it does not fit."""
    if kind is Any or body.encoding is not Encoding.JSON:
        return decode(body)
    try:
        return decoder_for(kind).decode(body.data)
    except (TypeError, msgspec.ValidationError, NotImplementedError):
        return decode(body)


def with_fields(body: Body, fields: Mapping[str, msgspec.Raw]) -> Body | None:
    """Return *body* with some fields replaced; None if it is not a JSON object.

    All else stays as it was written, digit by digit.
    """
    try:
        known = _raw_fields.decode(body.data) if body.encoding is Encoding.JSON else None
    except msgspec.MsgspecError:
        return None
    return None if known is None else Body(msgspec.json.encode({**known, **fields}))


def check_size(body: Body, limit: int) -> Body:
    """Return *body* if it is within *limit* bytes, or raise PayloadTooLargeError."""
    if len(body.data) > limit:
        raise PayloadTooLargeError(len(body.data), limit)
    return body


parse_max_payload = partial(check_count, name="max_payload", minimum=1, maximum=PAYLOAD_BYTES_MAX)
"""As S1-91 bounds it."""
