"""``3.0`` is a whole number to JSON Schema, and to the readers of most languages: so it is here.

A strict reader refuses it. What it refused for that is read once more, with the zeros left out
where a whole number is wanted, and nowhere else: a payload is kept as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec

_WHOLE = re.compile(rb"(-?[0-9]{1,19})\.0+")
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def is_about_whole_numbers(error: msgspec.ValidationError) -> bool:
    """Tell whether a number was refused for its form."""
    return "`int" in str(error) and "got `float`" in str(error)


def with_whole_numbers(data: bytes, kind: Any) -> bytes:
    """Return *data* with whole numbers written without zeros, where *kind* wants them."""
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
    """Return the types of fields by name; that of None is what any other has."""
    found: dict[str | None, Any] = {}
    for kind in kinds:
        if get_origin(kind) is dict:
            found[None] = get_args(kind)[1]
        elif isinstance(get_origin(kind) or kind, type) and issubclass(
            get_origin(kind) or kind, msgspec.Struct
        ):
            found |= {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    return found


def _flat(kind: Any) -> Iterator[Any]:
    """Yield the types of which a value may be one."""
    if hasattr(kind, "__metadata__"):
        yield from _flat(get_args(kind)[0])
    elif get_origin(kind) in (list, dict) or isinstance(kind, type):
        yield kind
    elif get_args(kind) and not isinstance(get_origin(kind), type):
        for each in get_args(kind):
            yield from _flat(each)
    elif get_args(kind) and issubclass(get_origin(kind), msgspec.Struct):
        yield kind
    else:
        for each in get_args(kind):
            yield from _flat(each)
