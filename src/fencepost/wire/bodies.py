"""Payloads, results and checkpoints on the wire: JSON as it is, anything else in base64.

JSON is passed on as the bytes that came, so that no number is rounded on its way.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.crypto.envelope import shown_body
from fencepost.core.job.job import EMPTY, Body, Encoding
from fencepost.core.values.payload import NULL, decode
from fencepost.errors import InvalidPayloadError
from fencepost.wire.shape import check_shape

Json = msgspec.Raw | UnsetType
Base64 = (
    Annotated[
        str,
        Meta(
            extra_json_schema={
                "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
                "examples": ["AP8="],
            }
        ),
    ]
    | UnsetType
)


def body_of(name: str, json: Json, encoded: Base64, *, default: Body = EMPTY) -> Body:
    """Return the body that a request gives as *name* or ``name_base64``, or raise."""
    if not isinstance(encoded, UnsetType):
        if not isinstance(json, UnsetType):
            raise InvalidPayloadError(f"give {name} or {name}_base64, not both")
        return Body(_decode_base64(name, encoded), Encoding.BINARY)
    return default if isinstance(json, UnsetType) else Body(bytes(json))


def _decode_base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidPayloadError(f"{name}_base64 is not base64") from None


def check_json(body: Body) -> Body:
    """Return *body* if any reader of JSON can read it, or raise InvalidPayloadError."""
    if body.encoding is Encoding.JSON:
        check_shape(body.data)
        decode(body)
    return body


class Shown(msgspec.Struct):
    """A body as it is shown: as JSON, in base64, or as the note that it is encrypted."""

    json: Json = UNSET
    base64: Base64 = UNSET
    encrypted: str | UnsetType = UNSET


NOTHING = Shown(json=msgspec.Raw(b"null"))


def show(body: Body | None) -> Shown:
    """Return *body* as the wire has it."""
    if body is None:
        return NOTHING
    match body.encoding:
        case Encoding.ENCRYPTED:
            return Shown(encrypted=shown_body(body))
        case Encoding.JSON if is_readable(body.data):
            return Shown(json=msgspec.Raw(body.data))
        case _:  # binary, or a corrupt row, which is shown as it is
            return Shown(base64=base64.b64encode(body.data).decode())


def is_readable(data: bytes) -> bool:
    """Tell whether *data* is JSON that can be sent on as it is."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def body_shown(shown: Shown) -> Body:
    """Return the body that the wire shows; of one that is encrypted, the note that it is."""
    if not isinstance(shown.encrypted, UnsetType):
        return Body(shown.encrypted.encode(), Encoding.ENCRYPTED)
    if not isinstance(shown.base64, UnsetType):
        return Body(_decode_base64("body", shown.base64), Encoding.BINARY)
    return NULL if isinstance(shown.json, UnsetType) else Body(bytes(shown.json))
