"""Custom backoff functions: asked at every failure, wherever their code records it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.worker.support import drain

from fencepost import App, NewJob, Retry, State
from fencepost.core.job.job import Category, Failure
from fencepost.core.job.outcome import LEASE_EXPIRED, Failed, decide
from fencepost.core.job.policy import backoff_name
from fencepost.testing.clock import FakeClock
from fencepost.worker import Backoffs

CALLS: list[int] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


def moody(attempt: int, initial: float, longest: float) -> float:
    """Answer otherwise each time it is asked, as one does that looks at the load."""
    CALLS.append(attempt)
    return initial * len(CALLS)


def failing_app(retry: Retry) -> App:
    app = App("memory://")

    @app.task(retry=retry)
    def fail() -> None:
        raise OSError("no")

    return app


def prepared(app: App) -> NewJob:
    return NewJob(type="fail", policy=app.session.task("fail").policy)


async def test_the_function_is_asked_when_an_attempt_has_failed() -> None:
    """S1-55: with the attempt that failed, not when the policy was made."""
    app = failing_app(Retry(max_attempts=5, backoff=moody, initial_delay=100.0))
    asked_before = len(CALLS)
    (job,) = app.submit_many([prepared(app)])
    await drain(app)
    seen = job.refresh()
    assert seen.state is State.RETRYING
    assert CALLS[asked_before:] == [1]
    waited = (seen.run_at - seen.updated_at).total_seconds()
    assert waited == pytest.approx(100.0 * len(CALLS))
    job.retry(reset_attempts=False)
    await drain(app)
    assert CALLS[asked_before:] == [1, 2]
    waited = (job.refresh().run_at - job.refresh().updated_at).total_seconds()
    assert waited == pytest.approx(100.0 * len(CALLS))


async def test_a_sampled_function_is_asked_beforehand_alone() -> None:
    """S1-55: for each attempt that can fail and be tried again."""
    app = failing_app(Retry(max_attempts=4, backoff=moody, initial_delay=100.0, sampled=True))
    assert CALLS == [1, 2, 3]
    (job,) = app.submit_many([prepared(app)])
    await drain(app)
    assert CALLS == [1, 2, 3]
    seen = job.refresh()
    assert seen.policy.backoff.function is None
    assert (seen.run_at - seen.updated_at).total_seconds() == pytest.approx(100.0)


@pytest.mark.parametrize("answer", [ValueError("broken"), -1.0, "soon", None])
async def test_a_function_that_fails_does_not_keep_a_failure_from_being_recorded(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The delays that were worked out beforehand are used, and the log says so."""
    answers: list[object] = [50.0, 60.0]

    def broken(attempt: int, initial: float, longest: float) -> float:
        found = answers.pop(0) if answers else answer
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[return-value]  # nonsense, on purpose

    app = failing_app(Retry(max_attempts=3, backoff=broken))
    (job,) = app.submit_many([prepared(app)])
    with caplog.at_level(logging.WARNING, logger="fencepost"):
        await drain(app)
    seen = job.refresh()
    assert seen.state is State.RETRYING
    assert (seen.run_at - seen.updated_at).total_seconds() == pytest.approx(50.0)
    assert "backoff.failed" in [vars(record).get("fencepost_event") for record in caplog.records]


async def test_jitter_and_max_delay_hold_for_what_the_function_says() -> None:
    """C2: never longer than max_delay."""
    app = failing_app(Retry(backoff=lambda n, i, m: 500.0, max_delay=60.0, jitter="full"))
    (job,) = app.submit_many([prepared(app)])
    await drain(app)
    seen = job.refresh()
    assert 0 <= (seen.run_at - seen.updated_at).total_seconds() <= 60.0


def test_only_the_function_that_the_policy_names_is_asked() -> None:
    """A job that was submitted with another one follows the delays that are stored with it."""
    app = failing_app(Retry(backoff=moody, initial_delay=7.0))
    other = failing_app(Retry(backoff=lambda n, i, m: 3.0))
    clock = FakeClock()
    (mine,) = app.submit_many([prepared(app)])
    job = mine.refresh()
    failed = Failed(Failure(Category.TEMPORARY, "no"))
    assert decide(job, failed, clock.rng, Backoffs(other.session.tasks)).delay == 7.0
    asked = len(CALLS) + 1
    assert decide(job, failed, clock.rng, Backoffs(app.session.tasks)).delay == 7.0 * asked
    assert decide(job, failed, clock.rng, Backoffs({})).delay == 7.0


def test_what_the_store_decides_itself_follows_the_stored_delays() -> None:
    """S4-8: a lease that ran out is judged where nobody may have the function."""
    app = failing_app(Retry(backoff=moody, initial_delay=7.0))
    (handle,) = app.submit_many([prepared(app)])
    asked = len(CALLS)
    assert decide(handle.refresh(), LEASE_EXPIRED, FakeClock().rng).delay == 7.0
    assert len(CALLS) == asked


def test_lambdas_are_told_apart_by_their_line() -> None:
    one = lambda n, i, m: 1.0  # noqa: E731
    two = lambda n, i, m: 2.0  # noqa: E731
    assert backoff_name(one) != backoff_name(two)
    assert backoff_name(moody) == f"{__name__}.moody"
