"""How the end of an attempt becomes the job's next state."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import UNREADABLE_DELAY_MAX, UNREADABLE_MAX
from fencepost.core.job.job import AttemptOutcome, Body, Category, Failure
from fencepost.core.job.lifecycle import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    Event,
    State,
    advance,
    first_state,
    promoted,
    reopened,
)
from fencepost.core.job.outcome import (
    CORRUPT,
    LEASE_EXPIRED,
    Decision,
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    Unreadable,
    cancelled,
    decide,
    expired,
)
from fencepost.core.job.policy import Backoff, Policy
from fencepost.errors import IllegalTransition

CONSTANT = Backoff(strategy="constant", initial_delay=7.0)


UNREAD = Failure(Category.SYSTEM, "payload does not fit f()", code="unreadable_payload")


@dataclass
class Standing:
    """The least of a job that ``decide`` needs."""

    attempt: int = 1
    max_attempts: int = 3
    policy: Policy = field(default_factory=lambda: Policy(backoff=CONSTANT))


def failed(category: Category, retry_after: float | None = None) -> Failed:
    return Failed(Failure(category, "no"), retry_after)


def is_retried(category: Category, *, on_timeout: bool, on_system: bool) -> bool:
    """What the requirements say, as a table (S1-81..S1-85)."""
    return {
        Category.TEMPORARY: True,
        Category.PERMANENT: False,
        Category.TIMEOUT: on_timeout,
        Category.CANCELLED: False,
        Category.SYSTEM: on_system,
    }[category]


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 10_000])
@pytest.mark.parametrize(("on_timeout", "on_system"), list(product((True, False), repeat=2)))
@pytest.mark.parametrize("category", Category)
def test_a_failure_is_retried_rejected_or_exhausted_by_category_policy_and_attempt(
    category: Category, on_timeout: bool, on_system: bool, max_attempts: int
) -> None:
    """S1-80..S1-85, S1-25..S1-27, S1-57, S0-22, S0-43, S0-44, C7, C19."""
    policy = Policy(backoff=CONSTANT, on_timeout=on_timeout, on_system=on_system)
    outcome = failed(category)
    for attempt in sorted({1, 2, max_attempts - 1, max_attempts, max_attempts + 1} - {0}):
        decision = decide(Standing(attempt, max_attempts, policy), outcome, Random(0))
        if not is_retried(category, on_timeout=on_timeout, on_system=on_system):
            expected = (Event.REJECT, State.FAILED, 0.0)
        elif attempt < max_attempts:
            expected = (Event.RETRY, State.RETRYING, 7.0)
        else:
            expected = (Event.EXHAUST, State.DEAD_LETTER, 0.0)
        assert (decision.event, decision.state, decision.delay) == expected
        assert decision.failure is outcome.failure
        assert decision.outcome is AttemptOutcome.FAILED
        assert decision.is_counted
        assert decision.result is None


def test_success_completes_the_job_and_keeps_its_result() -> None:
    """S1-16, S1-24, S0-30, S0-41."""
    result = Body(b"42")
    assert decide(Standing(), Succeeded(result), Random(0)) == Decision(
        Event.SUCCEED, State.COMPLETED, AttemptOutcome.SUCCEEDED, result=result
    )


def test_a_success_on_the_last_attempt_is_a_success() -> None:
    """S0-41."""
    decision = decide(Standing(attempt=3), Succeeded(Body(b"1")), Random(0))
    assert decision.state is State.COMPLETED


def test_a_snooze_waits_as_long_as_asked_and_is_not_counted() -> None:
    """S1-14."""
    assert decide(Standing(attempt=3), Snoozed(12.5), Random(0)) == Decision(
        Event.SNOOZE, State.DELAYED, AttemptOutcome.SNOOZED, delay=12.5, is_counted=False
    )


def test_a_released_job_is_claimable_at_once_and_the_attempt_is_not_counted() -> None:
    """C23."""
    assert decide(Standing(attempt=3), Released(), Random(0)) == Decision(
        Event.RELEASE, State.SCHEDULED, AttemptOutcome.RELEASED, is_counted=False
    )


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_an_expired_lease_is_decided_as_any_failure_is(attempt: int) -> None:
    """S4-4, S4-8, S4-16..S4-18, C8."""
    expired = decide(Standing(attempt), LEASE_EXPIRED, Random(0))
    nacked = decide(Standing(attempt), failed(Category.TEMPORARY), Random(0))
    assert (expired.event, expired.state, expired.delay) == (
        *(nacked.event, nacked.state, nacked.delay),
    )
    assert expired.failure == Failure(Category.SYSTEM, "lease expired", code="lease_expired")


def test_an_expired_lease_is_final_where_system_failures_are_not_retried() -> None:
    """S1-85, C8."""
    job = Standing(policy=Policy(on_system=False))
    assert decide(job, LEASE_EXPIRED, Random(0)).state is State.FAILED


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [(None, 7.0), (0.0, 7.0), (6.9, 7.0), (7.1, 7.1), (90_000.0, 90_000.0)],
)
def test_retry_after_is_the_least_to_wait_and_may_pass_the_policys_maximum(
    retry_after: float | None, delay: float
) -> None:
    """S1-88, C34."""
    decision = decide(Standing(), failed(Category.TEMPORARY, retry_after), Random(0))
    assert decision.delay == delay


def test_retry_after_does_not_buy_another_attempt() -> None:
    """S0-22, S0-60."""
    decision = decide(Standing(attempt=3), failed(Category.TEMPORARY, 5.0), Random(0))
    assert (decision.state, decision.delay) == (State.DEAD_LETTER, 0.0)


def test_the_backoff_follows_the_attempt_that_failed() -> None:
    """S0-67, S1-54."""
    job = Standing(max_attempts=9, policy=Policy())
    delays = []
    for job.attempt in (0, 1, 2, 3, 4):
        delays.append(decide(job, failed(Category.TEMPORARY), Random(0)).delay)
    assert delays == [1.0, 1.0, 2.0, 4.0, 8.0]


def test_the_same_seed_gives_the_same_decision() -> None:
    """S0-62: what is random is passed in, so that a run can be replayed."""
    job = Standing(policy=Policy(backoff=Backoff(jitter=1.0)))
    first, second, other = (
        decide(job, failed(Category.TEMPORARY), Random(seed)).delay for seed in (1, 1, 2)
    )
    assert first == second != other


def test_a_settlement_names_the_lease_that_entitles_to_it() -> None:
    """S0-48, S0-77."""
    decision = decide(Standing(), Released(), Random(0))
    assert Settlement("id", "token", decision).token == "token"


OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Succeeded(Body(b"1"))),
    st.just(Released()),
    st.just(LEASE_EXPIRED),
    st.builds(Snoozed, st.floats(0, 10)),
    st.builds(failed, st.sampled_from(Category), st.none() | st.floats(0, 10)),
    st.builds(Unreadable, st.just(UNREAD), st.integers(0, 10_000), st.floats(0, 2e9)),
)
BY_STORE_OR_HAND = (
    *(Event.READY, Event.DELAY, Event.CLAIM, Event.CANCEL, Event.EXPIRE),
    *(Event.REOPEN, Event.REOPEN_LATER),
)
# Of what one lease leads to, what comes after what (C6).
RANK = {
    State.PENDING: 0,
    State.RUNNING: 0,
    State.DELAYED: 1,
    State.RETRYING: 1,
    State.SCHEDULED: 2,
    State.COMPLETED: 3,
    State.FAILED: 3,
    State.DEAD_LETTER: 3,
    State.CANCELLED: 3,
}


class History:
    """A job moved by whatever comes, as a store would move it."""

    def __init__(self, max_attempts: int, policy: Policy) -> None:
        self.state = State.PENDING
        self.standing = Standing(0, max_attempts, policy)
        self.budget = 1
        self.lease_version = 0
        self.starts = 0

    def take(self, event: Event) -> None:
        self.state = advance(self.state, event)
        if event is Event.CLAIM:
            self.standing.attempt += 1
            self.lease_version += 1
            self.starts += 1
        elif event in (Event.REOPEN, Event.REOPEN_LATER):
            self.budget += 1
            self.standing.attempt = 0

    def end(self, outcome: Outcome) -> None:
        decision = decide(self.standing, outcome, Random(0))
        assert decision.state is TRANSITIONS[State.RUNNING][decision.event]
        assert decision.delay >= 0
        if not decision.is_counted:
            self.standing.attempt -= 1
        self.state = decision.state

    def position(self) -> tuple[int, int, int]:
        return self.budget, self.lease_version, RANK[self.state]


def test_what_nobody_understands_is_given_back_later_and_later_and_fails_after_an_hour() -> None:
    """C47: uncounted whatever the policy says, and bounded by time alone."""
    job = Standing(max_attempts=1, policy=Policy(on_system=False))
    delays: list[float] = []
    waited = 0.0
    while True:
        decision = decide(job, Unreadable(UNREAD, len(delays), waited), Random(0))
        if decision.event is not Event.RETRY:
            break
        assert (decision.state, decision.is_counted) == (State.RETRYING, False)
        assert (decision.outcome, decision.failure) == (AttemptOutcome.UNREADABLE, UNREAD)
        delays.append(decision.delay)
        waited += decision.delay
    assert delays[:8] == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert UNREADABLE_MAX <= waited < UNREADABLE_MAX + UNREADABLE_DELAY_MAX
    assert (decision.event, decision.state) == (Event.REJECT, State.FAILED)
    assert decision.is_counted
    assert decision.failure is not None
    assert decision.failure.category is Category.PERMANENT
    assert decision.failure.code == UNREAD.code
    assert decision.failure.message == f"{UNREAD.message}; for 60 minutes no worker could read it"


@given(
    steps=st.lists(st.sampled_from(BY_STORE_OR_HAND) | OUTCOMES, max_size=60),
    max_attempts=st.integers(1, 4),
    policy=st.builds(Policy, on_timeout=st.booleans(), on_system=st.booleans()),
)
def test_no_history_leaves_the_table_goes_back_or_runs_past_its_attempts(
    steps: list[Event | Outcome], max_attempts: int, policy: Policy
) -> None:
    """S0-20, S0-22, S1-11, S1-30, C6."""
    job = History(max_attempts, policy)
    for step in steps:
        before, state = job.position(), job.state
        if not isinstance(step, Event):
            if state is State.RUNNING:
                job.end(step)
                assert job.position() > before
        elif step in TRANSITIONS[state]:
            job.take(step)
            assert job.position() > before
        else:
            with pytest.raises(IllegalTransition):
                job.take(step)
            assert (job.position(), job.state) == (before, state)
        assert job.standing.attempt <= max_attempts


@given(
    outcomes=st.lists(st.sampled_from([LEASE_EXPIRED, failed(Category.TEMPORARY)]), min_size=9),
    max_attempts=st.integers(1, 9),
)
def test_a_job_that_always_fails_starts_exactly_as_often_as_allowed(
    outcomes: list[Outcome], max_attempts: int
) -> None:
    """S0-22, S0-58..S0-60, S1-47, S4-16, C1, C8: nacks and lost leases count alike."""
    job = History(max_attempts, Policy())
    for outcome in outcomes:
        if job.state.is_terminal:
            break
        job.take(Event.READY)
        job.take(Event.CLAIM)
        job.end(outcome)
    assert (job.state, job.starts) == (State.DEAD_LETTER, max_attempts)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("end", "event"), [(cancelled, Event.CANCEL), (expired, Event.EXPIRE)], ids=["cancel", "expire"]
)
def test_every_live_job_can_be_ended_from_outside_and_no_other(
    state: State, end: Callable[[State], Decision], event: Event
) -> None:
    """C20, C22: what the table of transitions says, with a failure that says why."""
    if state in TERMINAL:
        with pytest.raises(IllegalTransition):
            end(state)
        return
    decision = end(state)
    assert (decision.event, decision.state) == (event, advance(state, event))
    assert decision.failure is not None
    assert decision.failure.code
    assert decision.is_counted


def test_a_claimed_job_that_cannot_be_read_fails_for_good() -> None:
    assert (CORRUPT.state, CORRUPT.outcome) == (State.FAILED, AttemptOutcome.FAILED)
    assert CORRUPT.failure is not None
    assert CORRUPT.failure.category is Category.PERMANENT


def test_next_states_that_are_no_outcome_follow_the_table() -> None:
    assert [first_state(is_due=is_due) for is_due in (True, False)] == [
        State.SCHEDULED,
        State.DELAYED,
    ]
    for state in (State.DELAYED, State.RETRYING):
        assert promoted(state, has_key=False) is State.SCHEDULED
        assert promoted(state, has_key=True) is State.PENDING
    for state in TERMINAL - {State.COMPLETED}:
        assert reopened(state) is State.SCHEDULED
        assert reopened(state, is_later=True) is State.DELAYED
        assert reopened(state, is_later=True, is_waiting=True) is State.PENDING
    for state in LIVE | {State.COMPLETED}:
        with pytest.raises(IllegalTransition):
            reopened(state)


PACKAGE = Path(__file__).parents[2] / "src" / "fencepost"


def test_only_core_builds_decisions() -> None:
    """One place decides: a store applies a decision that ``core/job/outcome.py`` has made."""
    builders = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and "Decision" in ast.unparse(node.func).split(".")
    }
    assert builders == {"core/job/outcome.py"}
