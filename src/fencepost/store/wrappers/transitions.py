"""Counts transitions: each once, by what happened, the state it led to, and the job's type.

``event`` is the name of the event in ``core.lifecycle``, and ``submit`` for a job's first state.
Replies come in batches of up to a thousand, so each batch is summed up before it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from fencepost.core.job.lifecycle import TRANSITIONS, Event, State
from fencepost.observe.counters import Counters, Key, key_of
from fencepost.store.interface.replies import Moved

SUBMIT = "submit"
"""No event of the table: before it there is no job."""

Happening = tuple[str, State, str]
"""What happened, the state that it led to, and the job's type."""

EVENT_NAMES = {event: event.name.lower() for event in Event}
LABELS = (SUBMIT, *EVENT_NAMES.values())

_EVENTS = {
    (was, state): EVENT_NAMES[event]
    for was, events in TRANSITIONS.items()
    for event, state in events.items()
    if event is not Event.EXPIRE  # told apart by who tells of it: it ends as an exhausted one does
}


def event_of(move: Moved) -> str:
    """Return the name of the event that made *move*; of two in one breath, the one that counts.

    A job that its key held up and let go at once, or that a claim found unreadable, has made two.
    """
    found = _EVENTS.get((move.was, move.state))
    if found is not None:
        return found
    return EVENT_NAMES[Event.REJECT if move.state.is_terminal else Event.HOLD]


def count(
    counters: Counters, name: str, happenings: Iterable[Happening] | Mapping[Happening, int]
) -> None:
    """Add up *happenings* under *name*; those of a mapping are added up already."""
    summed = happenings if isinstance(happenings, Mapping) else Counter(happenings)
    counters.add_all(
        (_key(name, event, state, counters.types.fold(type_)), times)
        for (event, state, type_), times in summed.items()
        if times
    )


@lru_cache(maxsize=10_000)
def _key(name: str, event: str, state: State, type_: str) -> Key:
    return key_of(name, event=event, state=state, type=type_)


def count_moves(
    counters: Counters, name: str, moves: Iterable[Moved], event: Event | None = None
) -> None:
    """Add up *moves* under *name*; *event*, if given, made all of them."""
    made = None if event is None else EVENT_NAMES[event]
    count(counters, name, [(made or event_of(move), move.state, move.type) for move in moves])
