"""Values that several examples of the OpenAPI document have in common."""

from __future__ import annotations

from typing import Any

import msgspec

NOW, SOON = "2026-01-31T12:00:00Z", "2026-01-31T12:00:30Z"
JOB_ID = "5f0c3b0e-6a51-4b7e-9d0a-2f6f3c1d8e47"
OTHER_ID = "b1a7c0de-1d2f-4c3b-8a59-0e6d7f8a9b10"
TOKEN = "0f8d6c1a-5f43-4b6e-8b4a-6a1c2d3e4f50"
CURSOR = "ajE6NDI"


def plain(value: Any) -> Any:
    # Not to_builtins, which does not look into raw JSON.
    return msgspec.json.decode(msgspec.json.encode(value))


def json(text: str, **more: Any) -> dict[str, Any]:
    """Return a JSON object that is written without its braces, and *more* fields."""
    fields: dict[str, Any] = msgspec.json.decode(f"{{{text}}}")
    return fields | more


MAIL = json('"to": "a@b.c", "subject": "hi"')
