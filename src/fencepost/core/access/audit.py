"""The audit log: records of actions, and of how many refused requests are recorded.

A record never contains a payload or a secret: readers of the log may not be allowed to read jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from fencepost.core.access.bounds import (
    AUDIT_CONDITION_LENGTH_MAX,
    AUDIT_DETAIL_BYTES_MAX,
    AUDIT_NAME_LENGTH_MAX,
    AUDIT_REFUSED_MAX,
    AUDIT_REFUSED_WINDOW,
    AUDIT_TARGET_LENGTH_MAX,
    REQUEST_ID_LENGTH_MAX,
    TOKENS_MAX,
)
from fencepost.core.access.tokens import Principal
from fencepost.core.display import MASK


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action and its result."""

    id: str
    at: datetime | None = None
    """When it was recorded, by the store's clock; None until then."""
    principal_id: str | None
    """The id of the token; None if none was needed."""
    principal: str
    """The name of the token at that time."""
    action: str
    """What was done, such as ``job.cancel``."""
    target: str
    """The id of a job, the name of a queue, and so on."""
    detail: dict[str, Any] = {}
    request_id: str | None = None
    status: int | None = None
    """The HTTP status of the answer; None until then, and outside of HTTP."""


def make_action(
    principal: Principal,
    action: str,
    *,
    id: str,
    target: str = "",
    detail: Mapping[str, Any] | None = None,
    request_id: str | None = None,
) -> Action:
    """Return an action that has not ended, with every field cut to its bound."""
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
    """Return the text of a stranger as something that any store can keep."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(each if each.isprintable() else "�" for each in cut)


def bounded(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return *detail*, or a note instead of one that is too large or cannot be kept."""
    try:
        text = encode_detail(detail)
    except (TypeError, ValueError, RecursionError):
        return {"omitted": MASK}
    if len(text) > AUDIT_DETAIL_BYTES_MAX:
        return {"omitted": f"{len(text)} bytes"}
    return decode_detail(text)


def conditions_of(selection: msgspec.Struct, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the given conditions by name, their values cut if they are too long.

    All names stay, so that long values cannot hide what an action did.
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
    """Return the detail in *text*; empty if it cannot be read."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


@dataclass
class _Window:
    principal: Principal
    ends_at: float
    recorded: int = 0
    more: int = 0


class RefusedTries:
    """Refused requests by principal: a few of each are recorded in a minute, the rest counted.

    So a client that keeps asking cannot fill the disk.
    """

    def __init__(self) -> None:
        self._windows: dict[tuple[str | None, str], _Window] = {}

    def note(self, principal: Principal, now: float) -> bool:
        """Return whether a request is recorded; else it is counted. Call ``ended`` before."""
        key = (principal.token_id, principal.name)
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= TOKENS_MAX:
                return False
            window = self._windows[key] = _Window(principal, now + AUDIT_REFUSED_WINDOW)
        if window.recorded < AUDIT_REFUSED_MAX:
            window.recorded += 1
            return True
        window.more += 1
        return False

    def ended(self, now: float) -> Iterator[tuple[Principal, int]]:
        """Forget the windows that are over; yield the numbers that were only counted."""
        over = [key for key, window in self._windows.items() if window.ends_at <= now]
        for key in over:
            window = self._windows.pop(key)
            if window.more:
                yield window.principal, window.more
