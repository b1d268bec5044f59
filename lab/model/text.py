"""Values in as few words as tell them, for sequences that somebody has to read."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from fencepost.testing.clock import START
from lab.model.names import NAMED


def told(value: Any) -> str:
    """Return *value* as text: defaults left out, times from the start, ids by number."""
    match value:
        case msgspec.Struct():
            return f"{type(value).__name__}({', '.join(_fields(value))})"
        case Enum():
            return str(value.name)
        case datetime():
            return f"t{(value - START).total_seconds():+g}"
        case str() if value.startswith(NAMED[0]):
            head, dot, tail = value.removeprefix(NAMED[0]).partition(".")
            return f"job{int(head, 16)}{dot}{tail}"
        case list() | tuple():
            return f"[{', '.join(map(told, value))}]"
        case dict():
            return (
                "{" + ", ".join(f"{told(name)}: {told(each)}" for name, each in value.items()) + "}"
            )
    return repr(value)


def _fields(value: msgspec.Struct) -> list[str]:
    fields = msgspec.structs.fields(value)
    given = [(each, getattr(value, each.name)) for each in fields]
    return [
        f"{each.name}={told(set_)}"
        for each, set_ in given
        if each.required or set_ not in (each.default, {})
    ]
