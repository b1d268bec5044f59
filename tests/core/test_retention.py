"""How long terminal jobs are kept."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.job.timeouts import DAY, Retention
from fencepost.errors import ConfigurationError, InvalidDurationError, InvalidJobError


def test_every_terminal_state_has_a_time_and_no_live_one_has() -> None:
    """S1-5, S0-3: retention never drops a job that is not terminal."""
    assert Retention().by_state().keys() == TERMINAL


def test_what_failed_is_kept_longer_than_what_succeeded() -> None:
    """S1-5."""
    keep = Retention().by_state()
    assert keep[State.COMPLETED] == keep[State.CANCELLED] == 7 * DAY
    assert keep[State.FAILED] == keep[State.DEAD_LETTER] == 90 * DAY


def test_each_time_is_configurable() -> None:
    """S1-5."""
    keep = Retention(completed="1h", cancelled=0, failed="2d", dead_letter=5.5).by_state()
    assert keep == {
        State.COMPLETED: 3600.0,
        State.CANCELLED: 0.0,
        State.FAILED: 2 * DAY,
        State.DEAD_LETTER: 5.5,
    }


def test_records_of_events_have_a_time_of_their_own() -> None:
    """S1-5."""
    assert Retention().events == 7 * DAY
    assert Retention(events="1h").events == 3600.0


@pytest.mark.parametrize("name", ["completed", "cancelled", "failed", "dead_letter", "events"])
@pytest.mark.parametrize("value", [-1, "soon", None, float("inf")])
def test_a_time_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    """S1-5."""
    with pytest.raises(InvalidDurationError, match=name):
        Retention(**{name: value})


def test_types_can_have_rules_of_their_own() -> None:
    """S1-5: what is given for the app stands before what a task brings."""
    short, shorter = Retention(completed="1h"), Retention(completed="1m")
    app = Retention(by_type={"mail": short})
    assert app.by_type == {"mail": short}
    both = app.with_types({"mail": shorter, "sms": shorter})
    assert both.by_type == {"mail": short, "sms": shorter}
    assert both.by_state() == app.by_state()


@pytest.mark.parametrize("rule", ["1h", None, Retention(by_type={"a": Retention()})])
def test_rules_of_types_that_are_none_are_refused(rule: Any) -> None:
    with pytest.raises(ConfigurationError):
        Retention(by_type={"mail": rule})


def test_a_type_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidJobError):
        Retention(by_type={"": Retention()})
