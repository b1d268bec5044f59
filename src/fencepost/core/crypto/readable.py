"""Jobs, attempts and dead letters with no ciphertext where a person looks for a message."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from fencepost.core.crypto.envelope import from_text, shown_text
from fencepost.core.job.job import Attempt, DeadLetter, Job

S = TypeVar("S", Job, Attempt, DeadLetter)


def readable(seen: S) -> S:
    """Return what is *seen* with no ciphertext where a message should be."""
    changes: dict[str, Any] = {}
    for name in ("failure", "progress"):
        part = getattr(seen, name, None)
        if part is not None and from_text(part.message) is not None:
            changes[name] = replace(part, message=shown_text(part.message))
    url = getattr(seen, "callback_url", None)
    if url is not None and from_text(url) is not None:
        changes["callback_url"] = shown_text(url)
    return replace(seen, **changes) if changes else seen
