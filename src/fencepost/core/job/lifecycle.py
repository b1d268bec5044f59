"""The job's life: nine states, the events, and the only table of legal transitions.

The table is the specification: stores, documentation and tests read it. Within one attempt a job
moves forward only; what goes back to a waiting state (retry, release, reopen) opens a new attempt
or a new lease, so that (attempt budget, lease version, state) never repeats (C6). Only an operator
can postpone a job that stands in line.
"""

from __future__ import annotations

from enum import StrEnum

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

    # Enum's own is a Python function, and states are looked up several times for every job.
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
    HOLD = "be held up by its key"
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
"""The states in which a job takes up a slot of its concurrency key."""
DEAD = frozenset({State.FAILED, State.DEAD_LETTER})
"""The states whose jobs stand in the dead-letter list (C7)."""

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

# Any live job can be cancelled or can outlive its lifetime (C20, C22).
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
        # What it waited for has ended so (S1-71, S1-72).
        Event.REJECT: State.FAILED,
        Event.EXHAUST: State.DEAD_LETTER,
        **_ANY_LIVE,
    },
    # Its time has come, but as many jobs of its concurrency key are under way as may be.
    State.DELAYED: {Event.READY: State.SCHEDULED, Event.HOLD: State.PENDING, **_ANY_LIVE},
    # By an edit of its time (C46), which is an operator's act, as a retry by hand is (C6).
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
        Event.HOLD: State.PENDING,
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
