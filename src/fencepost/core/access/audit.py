"""Who did what: the record of an action that changes what others see.

No payload and no secret belongs into one: whoever may read the log need not be allowed to read
jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import (
    AUDIT_CONDITION_LENGTH_MAX,
    AUDIT_DETAIL_BYTES_MAX,
    AUDIT_NAME_LENGTH_MAX,
    AUDIT_TARGET_LENGTH_MAX,
    REQUEST_ID_LENGTH_MAX,
)
from fencepost.core.display import MASK


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action, with how it ended."""

    id: str
    at: datetime | None = None
    """When it was recorded, by the store's clock; None until then."""
    principal_id: str | None
    """The id of the token; None for whoever needed none."""
    principal: str
    """The token's name at that time."""
    action: str
    """What was done, such as ``job.cancel``."""
    target: str
    """To what: the id of a job, the name of a queue."""
    detail: dict[str, Any] = {}
    request_id: str | None = None
    status: int | None = None
    """The answer's HTTP status; None until there is one, and for what did not come by HTTP."""


def make_action(
    principal: Principal,
    action: str,
    *,
    id: str,
    target: str = "",
    detail: Mapping[str, Any] | None = None,
    request_id: str | None = None,
) -> Action:
    """Return an action that has not ended, whatever was given cut to its bound."""
    return Action(
        id=id,
        principal_id=principal.token_id,
        principal=principal.name,
        action=printable(action, AUDIT_NAME_LENGTH_MAX),
        target=printable(target, AUDIT_TARGET_LENGTH_MAX),
        detail=bounded(detail or {}),
        request_id=None if request_id is None else printable(request_id, REQUEST_ID_LENGTH_MAX),
    )


def printable(text: str, limit: int) -> str:
    """Return *text*, which a stranger may have typed, as something that any store can keep."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(each if each.isprintable() else "�" for each in cut)


def bounded(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return *detail* as it is, or a note in the place of what is too large or cannot be kept."""
    try:
        text = encode_detail(detail)
    except (TypeError, ValueError, RecursionError):
        return {"omitted": MASK}
    if len(text) > AUDIT_DETAIL_BYTES_MAX:
        return {"omitted": f"{len(text)} bytes"}
    return decode_detail(text)


def conditions_of(selection: msgspec.Struct, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return what was asked for by name, what was left out left out; cut if it is too much.

    All of the names stay, so that nobody hides what an action was for behind long words.
    """
    fields = msgspec.structs.fields(type(selection))
    given = {
        each.name: msgspec.to_builtins(value)
        for each in fields
        if each.name not in without and (value := getattr(selection, each.name))
    }
    return given if len(encode_detail(given)) <= AUDIT_DETAIL_BYTES_MAX // 2 else _cut(given)


def _cut(value: Any) -> Any:
    match value:
        case str():
            return printable(value, AUDIT_CONDITION_LENGTH_MAX)
        case dict():
            return {_cut(name): _cut(each) for name, each in value.items()}
        case list():
            return sorted({_cut(each) for each in value})
        case _:
            return value


def encode_detail(detail: Mapping[str, Any]) -> str:
    """Return the text that a table keeps."""
    return _encoder.encode(detail).decode()


def decode_detail(text: str) -> dict[str, Any]:
    """Return the detail in *text*; nothing if it cannot be read."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])
