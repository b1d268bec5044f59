"""C47: a payload that this version of the code cannot read is left to others, for a while."""

from __future__ import annotations

from typing import Any

import pytest
from tests.worker import isolated
from tests.worker.support import drain, eventually, working

from fencepost import (
    App,
    Category,
    Context,
    FailedAttempt,
    InvalidPayloadError,
    JobHandle,
    NewJob,
    Retry,
    State,
)
from fencepost.core.bounds import UNREADABLE_DELAY_MIN, UNREADABLE_MAX
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.values.payload import encode
from fencepost.store.interface.queue import Enqueued
from fencepost.store.memory.store import MemoryStore
from fencepost.testing import drain as drained
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.usefixtures("never_late")

NEWER = {"text": "hello", "language": "en"}


def submit_raw(app: App, payload: Any) -> JobHandle[Any]:
    """Submit to a task what a caller of another version would."""
    [reply] = app.store.run(app.store.queue.enqueue([NewJob(type="echo", payload=encode(payload))]))
    assert isinstance(reply, Enqueued)
    return app.jobs.get(reply.job_id)


async def on_loop(text: str) -> str:
    return text


def in_thread(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("handler", "isolation"),
    [(on_loop, None), (in_thread, None), (isolated.echo, "process")],
    ids=["on the loop", "in a thread", "in a child"],
)
async def test_a_job_that_a_worker_cannot_read_is_given_back(
    sqlite_app: App, caplog: pytest.LogCaptureFixture, handler: Any, isolation: Any
) -> None:
    """Uncounted, with a delay and a line in the log; it is not a failure of attempt 1."""
    app = sqlite_app
    app.task(name="echo", retry=Retry.none(), isolation=isolation)(handler)
    job = submit_raw(app, NEWER)
    await drain(app)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.RETRYING, 0)
    assert found.failure is not None
    assert (found.failure.category, found.failure.code) == (
        Category.SYSTEM,
        "unreadable_payload",
    )
    assert f"{handler.__name__}()" in found.failure.message
    assert (found.run_at - found.updated_at).total_seconds() == UNREADABLE_DELAY_MIN
    assert [each.outcome for each in job.attempts()] == [AttemptOutcome.UNREADABLE]
    assert job.why()[0].code == "unreadable_payload"
    counters = app.session.counters
    assert counters.get("payload.unreadable", type="echo") == 1
    assert counters.get("attempt.ended", outcome=AttemptOutcome.UNREADABLE) == 1
    [record] = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "payload.unreadable"
    ]
    fields = vars(record)["fencepost_fields"]
    assert (fields["id"], fields["type"]) == (job.id, "echo")
    assert "hello" not in str(fields), "payloads are never logged"


async def test_it_fails_when_that_has_gone_on_for_too_long(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded from the first time on, whichever worker met it then, and however often."""
    monkeypatch.setattr("fencepost.core.job.outcome.UNREADABLE_MAX", 0.02)
    monkeypatch.setattr("fencepost.core.job.outcome.UNREADABLE_DELAY_MIN", 0.01)
    app.task(name="echo", retry=Retry.none())(on_loop)
    told: list[tuple[str, bool]] = []

    @app.on_dead_letter
    def note(ctx: Context, failed: FailedAttempt) -> None:
        told.append((ctx.job_id, failed.will_retry))

    job = submit_raw(app, NEWER)
    async with working(app):
        await eventually(lambda: job.refresh().state.is_terminal)
    assert told == [(job.id, False)]
    found = job.refresh()
    assert (found.state, found.attempt) == (State.FAILED, 1)
    assert found.failure is not None
    assert (found.failure.category, found.failure.code) == (
        Category.PERMANENT,
        "unreadable_payload",
    )
    *unread, last = [each.outcome for each in job.attempts()]
    assert unread
    assert set(unread) == {AttemptOutcome.UNREADABLE}
    assert last is AttemptOutcome.FAILED


def test_a_rolling_deployment_loses_nothing() -> None:
    """Callers are new, one worker is old: what it met first, the new one completes."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    old, new = App("memory://", store=store), App("memory://", store=store)
    old.task(name="echo", retry=Retry.none())(on_loop)

    @new.task(name="echo", retry=Retry.none())
    def echo(text: str, language: str) -> str:
        return f"{language}: {text}"

    jobs = [echo.submit("hello", "en") for _ in range(5)]
    for ran in drained(old, raises=False):
        assert isinstance(ran.error, InvalidPayloadError)
        assert ran.state is State.RETRYING
    assert drained(new) == [], "they wait"
    clock.advance(UNREADABLE_DELAY_MIN)
    drained(new)
    assert [job.result(0) for job in jobs] == ["en: hello"] * 5
    assert {job.refresh().attempt for job in jobs} == {1}


def test_for_how_long_it_is_tried_and_how_often() -> None:
    clock = FakeClock()
    app = App("memory://", store=MemoryStore(clock=clock))
    app.task(name="echo")(on_loop)
    job = submit_raw(app, NEWER)
    begun = clock.now()
    ran = drained(app, advance="all", raises=False)
    assert job.refresh().state is State.FAILED
    assert UNREADABLE_MAX <= (clock.now() - begun).total_seconds() < 1.1 * UNREADABLE_MAX
    assert len(ran) <= 20, "no storm"


async def test_what_a_handler_submits_wrongly_is_its_own_failure(app: App) -> None:
    """S1-87: it would be as wrong the next time."""

    @app.task
    def other(x: int) -> None: ...

    @app.task
    def wrong() -> None:
        other.submit("seven")  # type: ignore[arg-type]

    job = wrong.submit()
    await drain(app)
    found = job.refresh()
    assert (found.state, found.attempt) == (State.FAILED, 1)
    assert found.failure is not None
    assert (found.failure.category, found.failure.code) == (Category.PERMANENT, "invalid_payload")
