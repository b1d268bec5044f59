"""What a caller may change about a stored job (C46), and when one that waits is due after that."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from fencepost.core.job.lifecycle import LIVE, Event, State, advance
from fencepost.core.job.priority import Priority

WAITING = LIVE - {State.RUNNING}
"""The states in which a job can be edited (C46)."""
HASTENED = frozenset({State.DELAYED, State.RETRYING})
"""The states in which a live job can be retried (C45): those that wait for their time."""


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


def rescheduled(
    state: State, *, is_held: bool, has_key: bool, due: int, now: int
) -> tuple[State, int] | None:
    """Return the state of a waiting job and its time, if it is to be due at *due*.

    None if that leaves it where it stands: it is in line, or would be but for its concurrency key,
    and keeps its place. *is_held* says that nothing but this key, if it *has_key*, holds it up.
    """
    assert state in WAITING
    if state is State.PENDING and not is_held:
        return state, max(due, now)  # for when those that it waits for let it go
    if state in HASTENED:
        if due > now:
            return state, due
        return advance(state, Event.HOLD if has_key else Event.READY), now
    if due <= now:
        return None
    return advance(state, Event.DELAY if is_held else Event.POSTPONE), due
