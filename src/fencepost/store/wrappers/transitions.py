"""Counts transitions of jobs by event, new state and type, as metrics show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from fencepost.core.job.lifecycle import TRANSITIONS, Event, State
from fencepost.observe.counters import Counters, Key, key_of
from fencepost.store.interface.queue import Moved

SUBMIT = "submit"
"""Counted for a job's first state: the table of transitions has no event for it."""

Happening = tuple[str, State, str]
"""What happened, the state that it led to, and the job's type."""

EVENT_NAMES = {event: event.name.lower() for event in Event}
LABELS = (SUBMIT, *EVENT_NAMES.values())

_EVENT_OF_MOVE = {
    (was, state): EVENT_NAMES[event]
    for was, events in TRANSITIONS.items()
    for event, state in events.items()
    if event is not Event.EXPIRE  # ends as an exhausted job does: the operation says which it was
}


def event_of(move: Moved) -> str:
    """Return the name of the event that made *move*; if there were two, the one that counts.

    A job that its key blocked and admitted at once, or that a claim found unreadable, made two.
    """
    found = _EVENT_OF_MOVE.get((move.was, move.state))
    if found is not None:
        return found
    return EVENT_NAMES[Event.REJECT if move.state.is_terminal else Event.BLOCK]


def count(
    counters: Counters, name: str, happenings: Iterable[Happening] | Mapping[Happening, int]
) -> None:
    """Count transitions under *name*: each once, by event, new state and type of the job."""
    summed = happenings if isinstance(happenings, Mapping) else Counter(happenings)
    amounts = [
        (_key(name, event, state, counters.types.fold(type_)), times)
        for (event, state, type_), times in summed.items()
        if times
    ]
    counters.add_all(amounts)


@lru_cache(maxsize=10_000)
def _key(name: str, event: str, state: State, type_: str) -> Key:
    return key_of(name, event=event, state=state, type=type_)


def count_moves(
    counters: Counters, name: str, moves: Iterable[Moved], event: Event | None = None
) -> None:
    """Count *moves* under *name*; *event*, if given, made all of them."""
    made = None if event is None else EVENT_NAMES[event]
    count(counters, name, [(made or event_of(move), move.state, move.type) for move in moves])
