"""Payloads and results as bytes: JSON by default, or binary as given. Never interpreted (S1-93)."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from fencepost.core.bounds import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from fencepost.core.crypto.envelope import unreadable
from fencepost.core.display import shown
from fencepost.core.job.job import Body, Encoding
from fencepost.errors import (
    ConfigurationError,
    InvalidJobError,
    InvalidPayloadError,
    PayloadTooLargeError,
    PermanentError,
)

BYTES_LIKE = (bytes, bytearray, memoryview)


def _encode_foreign(value: Any) -> Any:
    """Encode what msgspec does not know: a Pydantic model says itself how."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"{type(value).__qualname__} has no JSON form")


def _decode_foreign(kind: type, value: Any) -> Any:
    if kind is object:
        return value
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"cannot read {kind.__qualname__} from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
_any_decoder = msgspec.json.Decoder()


def decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder that checks what it reads against *kind*."""
    return msgspec.json.Decoder(kind, dec_hook=_decode_foreign)


def convert(value: Any, kind: Any) -> Any:
    """Return decoded *value* as a *kind*, or raise ValidationError if it is none."""
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
    """Tell whether a float that JSON cannot hold is somewhere inside *value*."""
    stack = [msgspec.to_builtins(value, enc_hook=_encode_foreign, str_keys=True)]
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

    One that is encrypted, and that nobody could decrypt on its way here, raises EncryptionError.
    """
    if body.encoding is Encoding.BINARY:
        return body.data
    if body.encoding is Encoding.ENCRYPTED:
        raise unreadable(body)
    try:
        return _any_decoder.decode(body.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPayloadError(f"not valid JSON: {error}") from None


def decode_result(body: Body, kind: Any) -> Any:
    """Return a result as its task's annotation says, or as plain JSON if it does not fit."""
    if kind is Any or body.encoding is not Encoding.JSON:
        return decode(body)
    try:
        return decoder_for(kind).decode(body.data)
    except (TypeError, msgspec.ValidationError, NotImplementedError):
        return decode(body)


def check_size(body: Body, limit: int) -> Body:
    """Return *body* if it is within *limit* bytes, or raise PayloadTooLargeError."""
    if len(body.data) > limit:
        raise PayloadTooLargeError(len(body.data), limit)
    return body


def parse_max_payload(value: object) -> int:
    """Return a payload limit in bytes, or raise ConfigurationError above 16 MB (S1-91)."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= PAYLOAD_BYTES_MAX:
        raise ConfigurationError(
            f"max_payload must lie between 1 and {PAYLOAD_BYTES_MAX:,} bytes, got {shown(value)}"
        )
    return value
