"""What becomes of a job that waits for others, as a table and as properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.flows.dependencies import (
    Dependencies,
    Mode,
    check_dependencies,
    check_depth,
    check_places,
)
from fencepost.core.flows.dependents import Parent, WaitVerdict, enter, judge, step
from fencepost.core.job.job import Category, Failure
from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.job.outcome import failed_with
from fencepost.core.job.policy import Priority
from fencepost.errors import (
    DependencyBreadthError,
    DependencyCycleError,
    DependencyDepthError,
    NoDependencyError,
)

DONE, RUN, FAIL, DEAD, GONE = (
    State.COMPLETED,
    State.RUNNING,
    State.FAILED,
    State.DEAD_LETTER,
    State.CANCELLED,
)


@pytest.mark.parametrize(
    ("mode", "states", "verdict"),
    [
        (Mode.ALL, [DONE, DONE], WaitVerdict()),
        (Mode.ALL, [DONE, RUN], WaitVerdict(1)),
        (Mode.ALL, [RUN, State.PENDING, State.RETRYING], WaitVerdict(3)),
        (Mode.ALL, [RUN, DEAD, FAIL], WaitVerdict(failed_dependency=1)),
        (Mode.ALL, [GONE], WaitVerdict(failed_dependency=0)),
        (Mode.ALL, [], WaitVerdict()),
        (Mode.ANY, [RUN, State.DELAYED], WaitVerdict(1)),
        (Mode.ANY, [RUN, FAIL], WaitVerdict()),
        (Mode.ANY, [GONE], WaitVerdict()),
        (Mode.ANY, [DEAD, RUN], WaitVerdict()),
        (Mode.ANY, [], WaitVerdict()),
        (Mode.ENDED, [FAIL, GONE, DEAD, DONE], WaitVerdict()),
        (Mode.ENDED, [FAIL, RUN, State.SCHEDULED], WaitVerdict(2)),
    ],
)
def test_a_job_waits_for_what_its_mode_says(
    mode: Mode, states: list[State], verdict: WaitVerdict
) -> None:
    """S1-60, S1-61, S1-70, C26, C28."""
    assert judge(mode, states) == verdict


@given(
    mode=st.sampled_from(Mode),
    ends=st.lists(st.sampled_from(sorted(TERMINAL)), min_size=1, max_size=8),
)
def test_counting_down_comes_to_what_judging_all_would(mode: Mode, ends: list[State]) -> None:
    """However the ends fall, one after the other decides as all at once."""
    states: list[State] = [RUN] * len(ends)
    missing = judge(mode, states).missing
    for place, end in enumerate(ends):
        states[place] = end
        verdict = step(mode, missing, end)
        at_once = judge(mode, states)
        assert verdict.missing == at_once.missing
        assert (verdict.failed_dependency is None) == (at_once.failed_dependency is None)
        if verdict.failed_dependency is not None or verdict.missing == 0:
            return
        missing = verdict.missing


@pytest.mark.parametrize(
    ("state", "category"),
    [(FAIL, Category.PERMANENT), (DEAD, Category.SYSTEM), (GONE, Category.CANCELLED)],
)
def test_an_end_passes_on_with_the_job_that_failed_first(state: State, category: Category) -> None:
    """S1-71, S1-72, S1-73, C27."""
    first = failed_with("a", state, Failure(Category.TIMEOUT, "slow"))
    assert first.state is state
    assert first.failure is not None
    assert (first.failure.category, first.failure.failed_dependency) == (category, "a")
    second = failed_with("b", state, first.failure)
    assert second.failure is not None
    assert second.failure.failed_dependency == "a"
    assert second.failure.code == "dependency_failed"


def test_a_job_is_as_urgent_as_the_most_urgent_it_waits_for() -> None:
    """S1-37."""
    parents = [Parent("a", RUN, Priority.LOW, 3), Parent("b", DONE, Priority.HIGH)]
    entry = enter(Mode.ALL, Priority.NORMAL, parents)
    assert entry.priority is Priority.HIGH
    assert (entry.waits.missing, entry.waits.depth) == (1, 4)
    assert enter(Mode.ALL, Priority.CRITICAL, parents).priority is Priority.CRITICAL


def test_a_hundred_in_a_row_are_the_most() -> None:
    """S1-66."""
    assert check_depth(100) == 100
    with pytest.raises(DependencyDepthError, match="101 jobs"):
        enter(Mode.ALL, Priority.NORMAL, [Parent("a", RUN, Priority.NORMAL, 100)])


def test_a_thousand_at_once_are_the_most() -> None:
    """S1-67: 1000 ok, 1001 refused; naming one twice counts once."""
    assert check_dependencies([str(n) for n in range(1_000)] * 2) is not None
    with pytest.raises(DependencyBreadthError, match="1,001"):
        check_dependencies([str(n) for n in range(1_001)])


def test_any_of_nothing_is_refused_and_all_of_nothing_is_no_wait() -> None:
    """C26: with zero dependencies reject."""
    with pytest.raises(NoDependencyError):
        check_dependencies([], mode=Mode.ANY)
    assert check_dependencies([]) is None
    assert check_dependencies(["a", "a"], mode=Mode.ENDED) == Dependencies(("a",), Mode.ENDED)


@pytest.mark.parametrize("place", [-1, 2, 3])
def test_only_what_stands_before_can_be_waited_for(place: int) -> None:
    """S1-65."""
    check_places([None, None, Dependencies((1,))])
    with pytest.raises(DependencyCycleError):
        check_places([None, None, Dependencies((1, place))])
