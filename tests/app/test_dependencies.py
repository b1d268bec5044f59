"""Jobs that wait for others: what a caller types, and what is refused before anything is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencepost import App, InvalidJobError, PermanentError, State, StateConflictError
from fencepost.core.bounds import DEPENDENCY_COUNT_MAX
from fencepost.errors import (
    DependencyBreadthError,
    JobFailedError,
    NoDependencyError,
    UnknownDependencyError,
)
from fencepost.testing import drain

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


class Tasks:
    """Handlers that note what ran."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ran: list[str] = []

        @app.task
        def step(name: str) -> str:
            self.ran.append(name)
            return name

        @app.task
        def fail(name: str) -> None:
            self.ran.append(name)
            raise PermanentError("no")

        self.step = step
        self.fail = fail


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


def test_a_job_runs_after_those_it_names(tasks: Tasks) -> None:
    """S1-60: handles and ids are both understood."""
    first, second = tasks.step.submit("first"), tasks.step.submit("second")
    last = tasks.step.using(after=[first, second.id]).submit("last")
    assert last.state is State.PENDING
    assert "runs when these have completed" in last.why()[0].text
    drain(tasks.app)
    assert tasks.ran == ["first", "second", "last"]


def test_a_lone_handle_of_either_face_needs_no_list(tasks: Tasks) -> None:
    first = tasks.step.submit("first")
    for awaited in (first, first.aio, first.id):
        assert tasks.step.using(after=awaited).submit("last").state is State.PENDING


def test_a_job_runs_after_any_of_those_it_names_however_that_ended(tasks: Tasks) -> None:
    """S1-61, C26."""
    bad = tasks.fail.submit("bad")
    later = tasks.step.using(delay="1h").submit("later")
    last = tasks.step.using(after_any=[bad, later]).submit("last")
    drain(tasks.app)
    assert tasks.ran == ["bad", "last"]
    assert last.refresh().state is State.COMPLETED


def test_failures_can_be_accepted(tasks: Tasks) -> None:
    """C28."""
    bad, good = tasks.fail.submit("bad"), tasks.step.submit("good")
    tasks.step.using(after=[bad, good], accept_failures=True).submit("last")
    drain(tasks.app)
    assert tasks.ran == ["bad", "good", "last"]


def test_accepting_can_be_said_afterwards(tasks: Tasks) -> None:
    bad = tasks.fail.submit("bad")
    behind = tasks.step.using(after=bad)
    behind.using(accept_failures=True).submit("last")
    failing = behind.using(accept_failures=True).using(accept_failures=False).submit("failing")
    drain(tasks.app)
    assert tasks.ran == ["bad", "last"]
    assert failing.refresh().state is State.FAILED


def test_what_was_named_before_is_replaced_or_taken_away(tasks: Tasks) -> None:
    first = tasks.step.submit("first")
    behind = tasks.step.using(after=first)
    assert behind.using(after=[]).submit("free").state is State.SCHEDULED
    assert behind.using(tags={"a": "b"}).submit("still").state is State.PENDING


def test_a_failure_ends_what_waits_and_names_the_first(tasks: Tasks) -> None:
    """S1-71, C27."""
    bad = tasks.fail.submit("bad")
    middle = tasks.step.using(after=bad).submit("middle")
    last = tasks.step.using(after=middle).submit("last")
    drain(tasks.app)
    with pytest.raises(JobFailedError, match=f"waited for job {bad.id}"):
        last.result()
    assert last.why()[0].code == "dependency_failed"


def test_a_retry_says_what_stands_in_its_way(tasks: Tasks) -> None:
    """C36: it names the job that failed, and what to type."""
    bad = tasks.fail.submit("bad")
    last = tasks.step.using(after=bad).submit("last")
    drain(tasks.app)
    with pytest.raises(StateConflictError, match=f"waits for job {bad.id}, which is failed") as no:
        last.retry()
    assert "flows" not in str(no.value)
    with pytest.raises(StateConflictError, match="retry that one first"):
        tasks.app.dead_letters.replay(last.id)
    flow = tasks.app.flow(
        {"x": tasks.fail.prepare("x"), "y": tasks.step.using(after="x").prepare("y")}
    )
    handle = flow.submit()
    drain(tasks.app)
    with pytest.raises(StateConflictError, match=rf"app\.flows\.get\('{handle.id}'\)\.retry\(\)"):
        handle["y"].retry()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"after": NOBODY}, UnknownDependencyError),
        ({"after": "no id"}, UnknownDependencyError),
        ({"after_any": []}, NoDependencyError),
        ({"after": NOBODY, "after_any": NOBODY}, InvalidJobError),
        ({"after": [f"{n}" for n in range(DEPENDENCY_COUNT_MAX + 1)]}, DependencyBreadthError),
        ({"after": 5}, InvalidJobError),
        ({"after": [5]}, InvalidJobError),
        ({"after": ""}, InvalidJobError),
        ({"accept_failures": True}, InvalidJobError),
    ],
)
def test_what_cannot_be_waited_for_is_refused_and_nothing_stored(
    tasks: Tasks, options: dict[str, Any], error: type[Exception]
) -> None:
    """S1-67, S1-68, C26."""
    with pytest.raises(error):
        tasks.step.using(**options).submit("never")
    assert tasks.app.jobs.count() == 0


def test_many_wait_for_one_all_or_none(tasks: Tasks) -> None:
    """S1-68."""
    first = tasks.step.submit("first")
    tasks.step.using(after=first).submit_many(["a", "b"])
    with pytest.raises(UnknownDependencyError):
        tasks.app.submit_many(
            [tasks.step.prepare("c"), tasks.step.using(after=NOBODY).prepare("d")]
        )
    assert tasks.app.jobs.count() == 3
    drain(tasks.app)
    assert tasks.ran == ["first", "a", "b"]


async def test_a_bad_dependency_does_not_refuse_the_jobs_of_others(tasks: Tasks) -> None:
    """Awaited submissions share commits; what can be refused is stored alone."""
    step = tasks.step.aio
    answers = await asyncio.gather(
        step.submit("a"),
        step.using(after=NOBODY).submit("b"),
        step.submit("c"),
        return_exceptions=True,
    )
    assert isinstance(answers[1], UnknownDependencyError)
    assert await tasks.app.aio.jobs.count() == 2


async def test_awaited_submissions_wait_too(tasks: Tasks) -> None:
    first = await tasks.step.aio.submit("first")
    last = await tasks.step.aio.using(after=first).submit("last")
    assert last.state is State.PENDING
    await drain.aio(tasks.app)
    assert await last == "last"


def test_cancelling_by_conditions_counts_what_waited(tasks: Tasks) -> None:
    """S1-73."""
    first = tasks.step.using(tags={"it": "yes"}).submit("first")
    tasks.step.using(after=first).submit("last")
    assert tasks.app.jobs.cancel(tags={"it": "yes"}) == 2
