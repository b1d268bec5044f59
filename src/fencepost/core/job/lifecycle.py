"""The life of a job: nine states, the events, and the only table of legal transitions.

Stores, documentation and tests read the table. Within one attempt a job only moves forward; a step
back to a waiting state (retry, release, reopen) opens a new attempt or a new lease, so that
(attempt budget, lease version, state) never repeats (C6). Only an operator can postpone a
claimable job, by an edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict

from fencepost.core.job.policy import PriorityLike
from fencepost.errors import IllegalTransition


class State(StrEnum):
    """Where a job is. ``SCHEDULED`` means claimable now."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    DELAYED = "delayed"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"

    # Enum's own is written in Python, and every job looks up several states.
    __hash__ = str.__hash__

    @property
    def is_terminal(self) -> bool:
        """True when nothing but an operator can move the job again."""
        return self in TERMINAL

    @property
    def coarse(self) -> str:
        """Return the state in the four words of queue theory, and cancelled (C5)."""
        return COARSE[self]


class Event(StrEnum):
    """What can happen to a job."""

    READY = "become ready"
    BLOCK = "be blocked by its concurrency key"
    DELAY = "be delayed"
    POSTPONE = "be postponed"
    CLAIM = "be claimed"
    SUCCEED = "succeed"
    REJECT = "be rejected"
    RETRY = "be retried"
    EXHAUST = "be exhausted"
    RELEASE = "be released"
    SNOOZE = "be snoozed"
    CANCEL = "be cancelled"
    EXPIRE = "outlive its lifetime"
    REOPEN = "be reopened"
    REOPEN_LATER = "be reopened later"
    REOPEN_WAITING = "be reopened to wait for others"

    __hash__ = str.__hash__


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED})
LIVE = frozenset(State) - TERMINAL
ACTIVE = frozenset({State.SCHEDULED, State.RUNNING})
"""The states in which a job occupies a slot of its concurrency key."""
DEAD = frozenset({State.FAILED, State.DEAD_LETTER})
"""The states of dead letters (C7)."""

COARSE = {
    State.PENDING: "ready",
    State.SCHEDULED: "ready",
    State.DELAYED: "ready",
    State.RETRYING: "ready",
    State.RUNNING: "in_flight",
    State.COMPLETED: "succeeded",
    State.FAILED: "failed",
    State.DEAD_LETTER: "failed",
    State.CANCELLED: "cancelled",
}

# Any live job can be cancelled or outlive its lifetime (C20, C22).
_ANY_LIVE = {Event.CANCEL: State.CANCELLED, Event.EXPIRE: State.DEAD_LETTER}

# An operator may reopen what failed or was cancelled; never what succeeded (C36, C37).
_BY_HAND = {
    Event.REOPEN: State.SCHEDULED,
    Event.REOPEN_LATER: State.DELAYED,
    Event.REOPEN_WAITING: State.PENDING,
}

TRANSITIONS: dict[State, dict[Event, State]] = {
    State.PENDING: {
        Event.READY: State.SCHEDULED,
        Event.DELAY: State.DELAYED,
        # A dependency has ended like that (S1-71, S1-72).
        Event.REJECT: State.FAILED,
        Event.EXHAUST: State.DEAD_LETTER,
        **_ANY_LIVE,
    },
    # BLOCK: its time has come, but its concurrency key has no free slot.
    State.DELAYED: {Event.READY: State.SCHEDULED, Event.BLOCK: State.PENDING, **_ANY_LIVE},
    # POSTPONE: an operator edited its time (C46).
    State.SCHEDULED: {Event.CLAIM: State.RUNNING, Event.POSTPONE: State.DELAYED, **_ANY_LIVE},
    State.RUNNING: {
        Event.SUCCEED: State.COMPLETED,
        Event.REJECT: State.FAILED,
        Event.RETRY: State.RETRYING,
        Event.EXHAUST: State.DEAD_LETTER,
        Event.RELEASE: State.SCHEDULED,
        Event.SNOOZE: State.DELAYED,
        **_ANY_LIVE,
    },
    State.RETRYING: {
        Event.READY: State.SCHEDULED,
        Event.BLOCK: State.PENDING,
        Event.EXHAUST: State.DEAD_LETTER,
        **_ANY_LIVE,
    },
    State.COMPLETED: {},
    State.FAILED: {**_BY_HAND},
    State.DEAD_LETTER: {**_BY_HAND},
    State.CANCELLED: {**_BY_HAND},
}


def advance(state: State, event: Event) -> State:
    """Return the state that follows *state* on *event*, or raise IllegalTransition."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(state, event) from None


def first_state(*, is_due: bool) -> State:
    """Return the state of a new job, or of one whose dependencies are met."""
    return advance(State.PENDING, Event.READY if is_due else Event.DELAY)


def promoted(state: State, *, has_key: bool) -> State:
    """Return the state of a job whose time has come; with a key, it first waits for a slot."""
    return advance(state, Event.BLOCK if has_key else Event.READY)


def reopened(state: State, *, is_later: bool = False, is_waiting: bool = False) -> State:
    """Return the state of a job that an operator retries, or raise IllegalTransition."""
    if is_waiting:
        return advance(state, Event.REOPEN_WAITING)
    return advance(state, Event.REOPEN_LATER if is_later else Event.REOPEN)


WAITING = LIVE - {State.RUNNING}
"""The states in which a job can be edited (C46)."""
HASTENED = frozenset({State.DELAYED, State.RETRYING})
"""The states of live jobs that a retry makes due at once (C45)."""


class Edits(TypedDict, total=False):
    """The keyword arguments of ``jobs.edit``; None, or leaving one out, changes nothing."""

    priority: PriorityLike | None
    tags: Mapping[str, str] | None
    """All tags, in any state; the other fields can change only while the job waits."""
    run_at: datetime | None
    """A time in the past means now."""
    payload: Any
    """The arguments by name, as a mapping, or bytes for a task that takes those."""
    correlation_id: str | None
    """Empty text removes it."""
    callback_url: str | None
    """Empty text removes it."""
    type: str | None
    """Like ``queue``, it cannot change: submit another job and cancel this one."""
    queue: str | None


class ManyEdits(TypedDict, total=False):
    """What can change in many jobs at once, by the rules of ``Edits``."""

    priority: PriorityLike | None
    tags: Mapping[str, str] | None
    """These replace all tags of each job."""
    run_at: datetime | None


def check_names(edits: Mapping[str, Any], known: type = Edits) -> None:
    """Raise TypeError, as Python would, for a name that ``jobs.edit`` does not have."""
    for name in edits.keys() - known.__annotations__.keys():
        raise TypeError(f"edit() got an unexpected keyword argument {name!r}")


def rescheduled(
    state: State, *, is_held: bool, has_key: bool, due: int, now: int
) -> tuple[State, int] | None:
    """Return the state and the time of a waiting job that is edited to be due at *due*.

    None if it is claimable already, or blocked only by its concurrency key (*is_held*): it keeps
    its place.
    """
    assert state in WAITING
    if state is State.PENDING and not is_held:
        return state, max(due, now)  # for when its dependencies are met
    if state in HASTENED:
        if due > now:
            return state, due
        return promoted(state, has_key=has_key), now
    if due <= now:
        return None
    return advance(state, Event.DELAY if is_held else Event.POSTPONE), due
