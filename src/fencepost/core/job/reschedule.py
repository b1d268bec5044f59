"""When a job that waits is to fall due at another time, by an edit or by a retry of a live job."""

from __future__ import annotations

from fencepost.core.job.lifecycle import LIVE, Event, State, advance

WAITING = LIVE - {State.RUNNING}
"""The states in which a job can be edited (C46)."""
HASTENED = frozenset({State.DELAYED, State.RETRYING})
"""The states in which a live job can be retried (C45): those that wait for their time."""


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
