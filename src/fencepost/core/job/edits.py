"""What a caller may ask to have changed about a stored job (C46)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from fencepost.core.job.priority import Priority


class Edits(TypedDict, total=False):
    """The keyword arguments of ``jobs.edit``; one that is None or left out stays as it is."""

    priority: Priority | int | str | None
    tags: Mapping[str, str] | None
    """All that it is to have, in any state; the rest can change only while the job waits."""
    run_at: datetime | None
    """A time that has come means now."""
    payload: Any
    """The arguments by name, as a mapping, or bytes for a task that takes those."""
    correlation_id: str | None
    """Empty: none any more."""
    callback_url: str | None
    """Empty: none any more."""
    type: str | None
    """Refused unless it is what it was, as is ``queue``: submit another job, and cancel this."""
    queue: str | None


def check_names(edits: Mapping[str, Any]) -> None:
    """Raise TypeError, as Python would, for what is no keyword argument of ``jobs.edit``."""
    for name in edits.keys() - Edits.__annotations__.keys():
        raise TypeError(f"edit() got an unexpected keyword argument {name!r}")
