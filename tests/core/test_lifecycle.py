"""The transition table, pair by pair."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.core.job.lifecycle import (
    COARSE,
    DEAD,
    LIVE,
    TERMINAL,
    TRANSITIONS,
    Event,
    State,
    advance,
)
from fencepost.errors import IllegalTransition, StateConflictError

# Written out a second time, from the requirements, so that a slip in the table is seen.
LEGAL = {
    (State.PENDING, Event.READY): State.SCHEDULED,  # S1-20
    (State.PENDING, Event.DELAY): State.DELAYED,  # S1-21
    (State.PENDING, Event.REJECT): State.FAILED,  # S1-71
    (State.PENDING, Event.EXHAUST): State.DEAD_LETTER,  # S1-72
    (State.PENDING, Event.CANCEL): State.CANCELLED,  # S3-9, S1-73
    (State.PENDING, Event.EXPIRE): State.DEAD_LETTER,  # S1-44
    (State.DELAYED, Event.READY): State.SCHEDULED,  # S1-22
    (State.DELAYED, Event.BLOCK): State.PENDING,  # held up by its concurrency key
    (State.DELAYED, Event.CANCEL): State.CANCELLED,
    (State.DELAYED, Event.EXPIRE): State.DEAD_LETTER,
    (State.SCHEDULED, Event.CLAIM): State.RUNNING,  # S1-23
    (State.SCHEDULED, Event.POSTPONE): State.DELAYED,  # C46
    (State.SCHEDULED, Event.CANCEL): State.CANCELLED,
    (State.SCHEDULED, Event.EXPIRE): State.DEAD_LETTER,
    (State.RUNNING, Event.SUCCEED): State.COMPLETED,  # S1-24
    (State.RUNNING, Event.REJECT): State.FAILED,  # S1-25
    (State.RUNNING, Event.RETRY): State.RETRYING,  # S1-26
    (State.RUNNING, Event.EXHAUST): State.DEAD_LETTER,  # S1-27
    (State.RUNNING, Event.RELEASE): State.SCHEDULED,  # C23
    (State.RUNNING, Event.SNOOZE): State.DELAYED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,  # C20
    (State.RUNNING, Event.EXPIRE): State.DEAD_LETTER,
    (State.RETRYING, Event.READY): State.SCHEDULED,  # S1-28
    (State.RETRYING, Event.BLOCK): State.PENDING,
    (State.RETRYING, Event.EXHAUST): State.DEAD_LETTER,  # S1-29
    (State.RETRYING, Event.CANCEL): State.CANCELLED,
    (State.RETRYING, Event.EXPIRE): State.DEAD_LETTER,
    (State.FAILED, Event.REOPEN): State.SCHEDULED,  # C36
    (State.FAILED, Event.REOPEN_LATER): State.DELAYED,
    (State.FAILED, Event.REOPEN_WAITING): State.PENDING,
    (State.DEAD_LETTER, Event.REOPEN): State.SCHEDULED,
    (State.DEAD_LETTER, Event.REOPEN_LATER): State.DELAYED,
    (State.DEAD_LETTER, Event.REOPEN_WAITING): State.PENDING,
    (State.CANCELLED, Event.REOPEN): State.SCHEDULED,
    (State.CANCELLED, Event.REOPEN_LATER): State.DELAYED,
    (State.CANCELLED, Event.REOPEN_WAITING): State.PENDING,
}
ILLEGAL = [pair for pair in product(State, Event) if pair not in LEGAL]


@pytest.mark.parametrize(("state", "event"), LEGAL, ids=lambda value: value.name)
def test_a_legal_event_leads_to_the_state_that_the_requirements_name(
    state: State, event: Event
) -> None:
    """S1-20..S1-29, C20, C21, C22, C23, C36, S0-28..S0-33."""
    assert advance(state, event) is LEGAL[state, event]


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=lambda value: value.name)
def test_every_other_event_is_refused_and_says_so(state: State, event: Event) -> None:
    """S1-30, S0-34, S1-11."""
    with pytest.raises(IllegalTransition, match=f"a {state} job cannot {event}") as caught:
        advance(state, event)
    assert isinstance(caught.value, StateConflictError)
    assert (caught.value.state, caught.value.event) == (state, event)


def test_the_pairs_tested_are_all_the_pairs_there_are() -> None:
    """S1-30."""
    assert len(LEGAL) + len(ILLEGAL) == len(State) * len(Event) == 144


def test_there_are_nine_states_with_the_names_of_the_model() -> None:
    """S1-12..S1-19, C21."""
    assert {state.value for state in State} == {
        *("pending", "scheduled", "delayed", "running", "retrying"),
        *("completed", "failed", "dead_letter", "cancelled"),
    }
    assert TRANSITIONS.keys() == set(State)


def test_a_state_is_live_or_terminal_and_never_both() -> None:
    """S0-20, C22."""
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert all(state.is_terminal == (state in TERMINAL) for state in State)
    assert {s for s in State if s.is_terminal} == {
        *(State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED)
    }


def test_nothing_leads_out_of_success() -> None:
    """S0-12, S0-41, C37."""
    assert TRANSITIONS[State.COMPLETED] == {}


@pytest.mark.parametrize("state", sorted(LIVE))
def test_any_live_job_can_be_cancelled_and_can_outlive_its_lifetime(state: State) -> None:
    """S3-9, C20, C21, C22, S1-44."""
    assert advance(state, Event.CANCEL) is State.CANCELLED
    assert advance(state, Event.EXPIRE) is State.DEAD_LETTER


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_no_terminal_job_can_be_cancelled_or_expire(state: State) -> None:
    """S3-11, C22."""
    assert not TRANSITIONS[state].keys() & {Event.CANCEL, Event.EXPIRE}


def test_only_a_claim_leads_to_running() -> None:
    """S2-2, S0-29, C6: RETRYING never goes straight to RUNNING."""
    ways = [
        (s, e) for s, row in TRANSITIONS.items() for e, to in row.items() if to is State.RUNNING
    ]
    assert ways == [(State.SCHEDULED, Event.CLAIM)]


def test_a_failed_job_never_becomes_a_dead_letter() -> None:
    """C6: the table wins over the diagram."""
    assert State.DEAD_LETTER not in TRANSITIONS[State.FAILED].values()


def test_both_ways_of_failing_stand_in_the_dead_letter_list() -> None:
    """C7."""
    assert {State.FAILED, State.DEAD_LETTER} == DEAD


def test_every_state_can_be_reached_from_submission() -> None:
    """S1-12..S1-19."""
    seen = {State.PENDING}
    while more := {to for s in seen for to in TRANSITIONS[s].values()} - seen:
        seen |= more
    assert seen == set(State)


@pytest.mark.parametrize(
    ("coarse", "states"),
    [
        ("ready", {State.PENDING, State.SCHEDULED, State.DELAYED, State.RETRYING}),
        ("in_flight", {State.RUNNING}),
        ("succeeded", {State.COMPLETED}),
        ("failed", {State.FAILED, State.DEAD_LETTER}),
        ("cancelled", {State.CANCELLED}),
    ],
)
def test_the_coarse_view_has_the_words_of_queue_theory(coarse: str, states: set[State]) -> None:
    """C5, S0-24..S0-27, S2-1."""
    assert {state for state in State if state.coarse == coarse} == states
    assert COARSE.keys() == set(State)
