"""``3.0`` is a whole number for JSON Schema and for most languages, and so it is here.

A strict decoder refuses it. A body refused for that is read again, with the zeros left out where a
whole number is needed, and nowhere else: a payload is kept as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

_WHOLE = re.compile(rb"(-?[0-9]{1,19})\.0+")
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def is_about_whole_numbers(error: msgspec.ValidationError) -> bool:
    """Return whether a number was refused for being written as a float."""
    return "`int" in str(error) and "got `float`" in str(error)


def with_whole_numbers(data: bytes, kind: Any) -> bytes:
    """Return *data* with whole numbers written as such where *kind* has them."""
    return _rewritten(msgspec.Raw(data), kind)


def _rewritten(raw: msgspec.Raw, kind: Any) -> bytes:
    data = bytes(raw).strip()
    kinds = list(_flat(kind))
    if data[:1] == b"{":
        fields = _fields(kinds)
        given = _raw_object.decode(data)
        named = {name: fields.get(name, fields.get(None)) for name in given}
        return _encode(
            {
                name: value if named[name] is None else msgspec.Raw(_rewritten(value, named[name]))
                for name, value in given.items()
            }
        )
    if data[:1] == b"[":
        items = [get_args(each)[0] for each in kinds if get_origin(each) is list]
        if not items:
            return data
        return _encode([msgspec.Raw(_rewritten(each, items[0])) for each in _raw_list.decode(data)])
    whole = _WHOLE.fullmatch(data)
    return whole[1] if whole is not None and int in kinds and float not in kinds else data


def _fields(kinds: list[Any]) -> dict[str | None, Any]:
    """Return the types of fields by name; that of None is for all other names."""
    found: dict[str | None, Any] = {}
    for kind in kinds:
        if get_origin(kind) is dict:
            found[None] = get_args(kind)[1]
        elif issubclass(get_origin(kind) or kind, msgspec.Struct):
            found.update(_types(kind))
    return found


@cache  # 2 ms for each job of a batch
def _types(kind: Any) -> dict[str, Any]:
    """Return the types of a struct's fields by name."""
    return {each.encode_name: each.type for each in msgspec.structs.fields(kind)}


def _flat(kind: Any) -> Iterator[Any]:
    """Yield the types that a value may have: those of a union, without annotations."""
    if hasattr(kind, "__metadata__"):
        yield from _flat(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _flat(each)
    elif isinstance(get_origin(kind) or kind, type):
        yield kind
