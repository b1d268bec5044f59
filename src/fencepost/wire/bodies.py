"""Payloads, results and checkpoints on the wire: JSON as it is, anything else in base64.

JSON is passed on as the bytes that came, so that no number is rounded on its way. Its depth and its
number of values are checked before it is decoded: decoded, it takes ten times the memory and more,
and decoding cannot be interrupted. Counting takes a fraction of that, and works in pieces, so that
a thread that counts does not hold up the others.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.job.job import EMPTY, Body, Encoding
from fencepost.core.values.payload import NULL, body_fields, decode
from fencepost.errors import InvalidPayloadError
from fencepost.wire.bounds import JSON_DEPTH_MAX, JSON_VALUES_MAX

S = TypeVar("S", bound=msgspec.Struct)

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

PIECE = 65_536
ITEM_DEPTH = 3
"""The depth of the jobs in ``{"jobs": [{…}, {…}]}``, counted from the outside."""
_BACKSLASH = b"\\"[0]
_BACKSLASHES = re.compile(rb"\\*")
_OPENING = frozenset(b"[{")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def body_of(name: str, json: Json, encoded: Base64, *, default: Body = EMPTY) -> Body:
    """Return the body in the fields *name* or ``name_base64`` of a request, or raise."""
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
    """Return *body*, or raise InvalidPayloadError if it claims to be JSON and is not."""
    if body.encoding is Encoding.JSON:
        check_shape(body.data)
        decode(body)
    return body


def shown_fields(**bodies: Body | None) -> dict[str, Any]:
    """Return the field that shows each of *bodies* in a struct; the others for it stay unset."""
    fields: dict[str, Any] = {}
    for name, body in bodies.items():
        fields |= body_fields(name, body, is_raw=True)
    return fields


@cache
def _required(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(each.name for each in msgspec.structs.fields(kind) if each.required)


def shown_as(kind: type[S], source: Any, **others: Any) -> S:
    """Return a *kind* with its required fields as *source* has them, but for *others*.

    A field with a default has to be among these: what may be withheld is not shown by accident.
    """
    same = {name: getattr(source, name) for name in _required(kind) if name not in others}
    return kind(**same, **others)


def body_in(view: Any, name: str) -> Body:
    """Return the body in these fields of *view*; of an encrypted one, the note that it is."""
    encrypted, encoded = getattr(view, f"{name}_encrypted"), getattr(view, f"{name}_base64")
    if encrypted is not UNSET:
        return Body(encrypted.encode(), Encoding.ENCRYPTED)
    if encoded is not UNSET:
        return Body(_decode_base64(name, encoded), Encoding.BINARY)
    json = getattr(view, name)
    return NULL if json is UNSET else Body(bytes(json))


def check_shape(data: bytes) -> int:
    """Return how many objects and lists there can be at ITEM_DEPTH.

    Raises InvalidPayloadError if *data* is nested deeper than JSON_DEPTH_MAX, or has more values
    than JSON_VALUES_MAX. Whether it is JSON at all is left to the decoder.
    """
    opened = data.count(b"[") + data.count(b"{")
    # This counts brackets and commas in strings too; if even so there are few, all is well.
    if opened <= JSON_DEPTH_MAX and opened + data.count(b",") <= JSON_VALUES_MAX:
        return opened
    depth = items = values = 0
    for piece in _without_texts(data):
        values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if values > JSON_VALUES_MAX:
            raise InvalidPayloadError(f"the body has more than {JSON_VALUES_MAX:,} values")
        for byte in piece.translate(None, _NO_BRACKETS):
            if byte in _OPENING:
                depth += 1
                if depth > JSON_DEPTH_MAX:
                    raise InvalidPayloadError(
                        f"the JSON is nested deeper than {JSON_DEPTH_MAX} levels"
                    )
                if depth == ITEM_DEPTH:
                    items += 1
            else:
                depth -= 1
    return items


def _without_texts(data: bytes) -> Iterator[bytes]:
    """Yield *data* piece by piece, without what is between quotes."""
    start, is_text = 0, False
    while start < len(data):
        end = min(start + PIECE, len(data))
        if data[end - 1] == _BACKSLASH:
            # A backslash belongs to what follows it; several are read from the first on.
            run = _BACKSLASHES.match(data, end)
            end = end + 1 if run is None else run.end() + 1
        piece = data[start:end]
        if _BACKSLASH in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        start = end
