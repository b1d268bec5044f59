"""Batch handlers: one call for several jobs, each of which keeps its own lease and outcome."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from tests.worker.support import (
    LONG,
    drain,
    ended,
    eventually,
    executor_of,
    take_leases_away,
    working,
)

from fencepost import (
    App,
    BatchJob,
    ConfigurationError,
    Context,
    InvalidPayloadError,
    PermanentError,
    Retry,
    Snooze,
    State,
)
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import Event
from fencepost.store.interface.queue import ClaimRequest
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots

pytestmark = pytest.mark.usefixtures("never_late")


@dataclass
class Line:
    number: int
    text: str = ""


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_gets_the_jobs_of_a_claim_at_once(app: App, is_async: bool) -> None:
    batches: list[list[tuple[int, str, int]]] = []

    def both(jobs: list[BatchJob[Line]]) -> list[int]:
        batches.append([(job.payload.number, job.id, job.attempt) for job in jobs])
        return [job.payload.number * 2 for job in jobs]

    async def coroutine(jobs: list[BatchJob[Line]]) -> list[int]:
        await asyncio.sleep(0)
        return both(jobs)

    task = app.task(name="double", batch=4)(coroutine if is_async else both)
    jobs = task.submit_many([Line(number, "x") for number in range(10)])
    await drain(app, concurrency=10)
    assert [job.result(0) for job in jobs] == [number * 2 for number in range(10)]
    batches.sort()  # threads run them side by side
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [each for batch in batches for each in batch] == [
        (number, job.id, 1) for number, job in enumerate(jobs)
    ]


@pytest.mark.parametrize("is_async", [True, False])
async def test_each_job_has_its_own_outcome(app: App, is_async: bool) -> None:
    def each(jobs: list[BatchJob[Line]]) -> list[Any]:
        return [_END[job.payload.text] for job in jobs]

    async def each_async(jobs: list[BatchJob[Line]]) -> list[Any]:
        return each(jobs)

    task = app.task(name="each", batch=10, retry=Retry(max_attempts=2, initial_delay=60))(
        each_async if is_async else each
    )
    jobs = {text: task.submit(Line(1, text)) for text in _END}
    await drain(app)
    assert {text: job.refresh().state for text, job in jobs.items()} == {
        "value": State.COMPLETED,
        "nothing": State.COMPLETED,
        "error": State.RETRYING,
        "permanent": State.FAILED,
        "snooze": State.DELAYED,
        "unwritable": State.FAILED,
    }
    assert jobs["value"].result(0) == {"a": 1}
    found = jobs["permanent"].refresh().failure
    assert found is not None
    assert found.code == "gone"
    assert jobs["snooze"].refresh().attempt == 0


_END = {
    "value": {"a": 1},
    "nothing": None,
    "error": ValueError("not now"),
    "permanent": PermanentError("never", code="gone"),
    "snooze": Snooze(60),
    "unwritable": object(),
}


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([1], "for each of its 2 jobs, in their order; got 1 of them"),
        ({"a": 1}, "got "),
    ],
)
async def test_a_wrong_number_of_results_fails_all(app: App, returned: Any, words: str) -> None:
    @app.task(batch=2)
    async def wrong(jobs: list[BatchJob[Line]]) -> Any:
        return returned

    jobs = wrong.submit_many([Line(1), Line(2)])
    await drain(app)
    for job in jobs:
        failure = job.refresh().failure
        assert failure is not None
        assert (job.refresh().state, failure.code) == (State.FAILED, "invalid_result")
        assert words in failure.message


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_it_raises_fails_each_by_its_own_policy(app: App, is_async: bool) -> None:
    async def broken_async(jobs: list[BatchJob[Line]]) -> None:
        raise OSError("no disk")

    def broken(jobs: list[BatchJob[Line]]) -> None:
        raise OSError("no disk")

    task = app.task(name="broken", batch=2)(broken_async if is_async else broken)
    patient = task.using(retry=Retry(max_attempts=2, initial_delay=60)).submit(Line(1))
    final = task.using(retry=Retry.none()).submit(Line(2))
    await drain(app)
    assert patient.refresh().state is State.RETRYING
    assert final.refresh().state is State.DEAD_LETTER
    failure = final.refresh().failure
    assert failure is not None
    assert failure.message == "no disk"


async def test_a_job_waits_for_others(app: App) -> None:
    """The second comes by another claim, and finds the first waiting."""
    sizes: list[int] = []

    @app.task(batch=2, batch_wait="50ms")
    async def pair(jobs: list[BatchJob[Line]]) -> None:
        sizes.append(len(jobs))

    async with working(app, concurrency=2):
        # Until it went well: on a busy machine, the second may come too late.
        while 2 not in sizes:
            jobs = [pair.submit(Line(1)), pair.submit(Line(2))]
            for job in jobs:
                assert (await ended(job)).state is State.COMPLETED


async def test_no_more_jobs_come_together_than_there_are_slots(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker says so at its start, and with which option they would."""
    sizes: list[int] = []

    @app.task(batch=100, batch_wait="50ms")
    async def many(jobs: list[BatchJob[Line]]) -> None:
        sizes.append(len(jobs))

    many.submit_many([Line(number) for number in range(6)])
    with caplog.at_level("WARNING", "fencepost"):
        await drain(app, concurrency=3)
    assert sum(sizes) == 6
    assert max(sizes) <= 3
    (warning,) = caplog.messages
    assert warning.startswith("many takes batches of 100, but this worker has 3 slots")
    assert warning.endswith("start it with --concurrency 100")


async def test_slots_that_suffice_for_a_batch_are_no_matter(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(batch=3)
    async def few(jobs: list[BatchJob[Line]]) -> None: ...

    @app.task
    async def single() -> None: ...

    with caplog.at_level("WARNING", "fencepost"):
        await drain(app, concurrency=3)
    assert caplog.messages == []


async def test_jobs_that_wait_for_others_are_given_back_at_a_stop(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncounted, as every job whose handler has not begun."""
    monkeypatch.setattr("fencepost.core.values.batch.BATCH_WAIT_MAX", 1000.0)
    ran: list[str] = []

    @app.task(batch=10, batch_wait=500)
    async def late(jobs: list[BatchJob[Line]]) -> None:
        ran.extend(job.id for job in jobs)

    job = late.submit(Line(1))
    async with working(app):
        await eventually(lambda: job.refresh().state is State.RUNNING)
    assert ran == []
    assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)


@pytest.mark.parametrize("timeout", [0.3, 0.03])  # the second one before the other has a timer
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_shortest_timeout_stops_all(app: App, is_async: bool, timeout: float) -> None:
    deadlines: list[Any] = []
    finish = threading.Event()

    def note(jobs: list[BatchJob[Line]]) -> None:
        deadlines.extend(job.ctx.deadline for job in jobs)

    async def slow_async(jobs: list[BatchJob[Line]]) -> None:
        note(jobs)
        await asyncio.sleep(LONG)

    def slow(jobs: list[BatchJob[Line]]) -> None:
        note(jobs)
        while not finish.wait(0.01):
            pass

    task = app.task(name="slow", batch=2, retry=Retry.none())(slow_async if is_async else slow)
    short = task.using(timeout=timeout).prepare(Line(1))
    long = task.using(timeout=LONG).prepare(Line(2))
    jobs = app.submit_many([short, long])
    try:
        await drain(app)
    finally:
        finish.set()
    for job in jobs:
        failure = job.refresh().failure
        assert failure is not None
        assert failure.message == f"ran longer than its timeout of {timeout} s"
        assert job.refresh().state is State.DEAD_LETTER
    assert not deadlines or (max(deadlines) - min(deadlines)).total_seconds() < 0.2


async def test_the_shortest_timeout_holds_though_its_job_has_dropped_out(app: App) -> None:
    """``ctx.deadline`` has said so to the handler, for all of its jobs."""
    began = asyncio.Event()

    @app.task(batch=2, retry=Retry.none())
    async def slow(jobs: list[BatchJob[Line]]) -> None:
        began.set()
        await asyncio.sleep(LONG)

    short = slow.using(timeout=0.8).prepare(Line(1))
    long = slow.using(timeout=3).prepare(Line(2))
    first, second = app.submit_many([short, long])
    async with working(app, lease_ttl=1):
        await began.wait()
        first.cancel()
        failure = (await ended(second)).failure
    assert first.refresh().state is State.CANCELLED
    assert failure is not None
    assert failure.message == "ran longer than its timeout of 0.8 s"
    spent = second.attempts()[0]
    assert spent.ended_at is not None
    assert (spent.ended_at - spent.started_at).total_seconds() < 2.5


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_job_drops_out_and_the_others_go_on(app: App, is_async: bool) -> None:
    began, finish = threading.Event(), threading.Event()
    contexts: dict[int, Context] = {}

    def begin(jobs: list[BatchJob[Line]]) -> None:
        contexts.update({job.payload.number: job.ctx for job in jobs})
        began.set()

    async def careful_async(jobs: list[BatchJob[Line]]) -> list[int]:
        begin(jobs)
        while not finish.is_set():
            await asyncio.sleep(0.01)
        return [job.payload.number for job in jobs]

    def careful(jobs: list[BatchJob[Line]]) -> list[int]:
        begin(jobs)
        finish.wait(LONG)
        return [job.payload.number for job in jobs]

    task = app.task(name="careful", batch=2)(careful_async if is_async else careful)
    first, second = task.submit_many([Line(1), Line(2)])
    async with working(app, lease_ttl=1):
        await eventually(began.is_set)
        first.cancel()
        await eventually(lambda: contexts[1].cancelled)
        assert not contexts[2].cancelled
        finish.set()
        assert (await ended(second)).state is State.COMPLETED
    assert second.result(0) == 2
    assert second.refresh().attempt == 1, "it was not stopped and tried again"
    assert first.refresh().state is State.CANCELLED
    assert first.refresh().result is None


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_call_is_stopped_when_its_last_job_is_lost(
    sqlite_app: App, is_async: bool
) -> None:
    began, stopped = threading.Event(), threading.Event()

    async def lost_async(jobs: list[BatchJob[Line]]) -> None:
        began.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            stopped.set()

    def lost(jobs: list[BatchJob[Line]]) -> None:
        began.set()
        never = threading.Event()
        try:
            while not never.wait(0.01):
                pass
        finally:
            stopped.set()

    task = sqlite_app.task(name="lost", batch=2)(lost_async if is_async else lost)
    task.submit_many([Line(1), Line(2)])
    async with working(sqlite_app, lease_ttl=1, concurrency=2) as worker:
        await eventually(began.is_set)
        take_leases_away(sqlite_app)
        await eventually(stopped.is_set)
        assert worker._pipeline is not None
        slots = worker._pipeline.slots
        await eventually(lambda: slots.taken == 0)


async def test_at_a_shutdown_all_are_released(app: App) -> None:
    began = asyncio.Event()

    @app.task(batch=2)
    async def long(jobs: list[BatchJob[Line]]) -> None:
        began.set()
        await asyncio.sleep(10 * LONG)

    jobs = long.submit_many([Line(1), Line(2)])
    async with working(app, grace=0):
        await began.wait()
    for job in jobs:
        assert (job.refresh().state, job.refresh().attempt) == (State.SCHEDULED, 0)
        assert [each.outcome for each in job.attempts()] == [AttemptOutcome.RELEASED]


async def test_a_payload_that_cannot_be_read_fails_alone(app: App) -> None:
    """The handler does not see it; to its own job it is what it always is (C47)."""
    seen: list[int] = []
    old = App("memory://", store=app.store)

    @old.task(name="typed", batch=5)
    async def untyped(jobs: list[BatchJob[Any]]) -> None: ...

    @app.task(batch=5)
    async def typed(jobs: list[BatchJob[Line]]) -> None:
        seen.extend(job.payload.number for job in jobs)

    bad = untyped.submit({"number": "none"})
    good = typed.submit(Line(7))
    async with working(app):
        assert (await ended(good)).state is State.COMPLETED
        await eventually(lambda: bad.refresh().state is State.RETRYING)
    assert seen == [7]
    assert [each.outcome for each in bad.attempts()] == [AttemptOutcome.UNREADABLE]


async def test_hooks_are_called_once_around_a_batch_and_for_each_failure(app: App) -> None:
    calls: list[str] = []

    @app.around
    async def outer(ctx: Context, call: Any) -> None:
        calls.append(f"around {ctx.job_id}")
        await call()

    @app.around
    def inner(ctx: Context, call: Any) -> None:
        calls.append("inner")
        call()

    @app.on_failure
    async def note(ctx: Context, failed: Any) -> None:
        calls.append(f"failed {ctx.job_id} {failed.error}")

    @app.task(batch=3, retry=Retry.none())
    def some(jobs: list[BatchJob[Line]]) -> list[Any]:
        calls.append("handler")
        return [None, ValueError("two"), ValueError("three")]

    jobs = some.submit_many([Line(1), Line(2), Line(3)])
    await drain(app)
    assert calls[:3] == [f"around {jobs[0].id}", "inner", "handler"]
    assert sorted(calls[3:]) == sorted([f"failed {jobs[1].id} two", f"failed {jobs[2].id} three"])
    assert jobs[0].refresh().state is State.COMPLETED


async def test_batches_are_of_one_queue(app: App) -> None:
    """So that every hook which is for a queue concerns all of a batch, or none."""
    queues: list[set[str]] = []

    @app.task(batch=10)
    async def mixed(jobs: list[BatchJob[Line]]) -> None:
        queues.append({job.ctx.queue for job in jobs})

    for number in range(6):
        mixed.using(queue="a" if number % 2 else "b").submit(Line(number))
    await drain(app)
    assert sorted(map(sorted, queues)) == [["a"], ["b"]]


def test_a_submission_takes_one_payload_or_its_fields(app: App) -> None:
    @app.task(batch=10)
    def index(jobs: list[BatchJob[Line]]) -> None: ...

    by_value, by_name = index.submit(Line(1, "x")), app.jobs.get(_submit(index))
    assert by_value.refresh().payload == by_name.refresh().payload
    with pytest.raises(InvalidPayloadError, match="Expected `int`"):
        index.submit({"number": "one"})  # type: ignore[arg-type]  # that it is wrong is the point
    with pytest.raises(InvalidPayloadError, match="takes one payload, or its fields by name"):
        index.submit(Line(1), Line(2))  # type: ignore[call-arg]  # as above
    with pytest.raises(InvalidPayloadError, match="takes one payload"):
        index.submit()  # type: ignore[call-arg]  # as above


def _submit(task: Any) -> str:
    return str(task.submit(number=1, text="x").id)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 0}, "batch must lie between 1 and"),
        ({"batch_wait": "1ms"}, "give batch= as well"),
        ({"batch": 5, "batch_wait": "1s"}, "batch_wait can be 50ms at most, got '1s'"),
        ({"batch": 5, "isolation": "process"}, 'isolation="process"'),
    ],
)
def test_options_that_cannot_be_are_refused(app: App, options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        app.task(**options)(module_handler)


def module_handler(jobs: list[BatchJob[Line]]) -> None: ...


def test_a_handler_that_takes_no_list_of_jobs_is_refused(app: App) -> None:
    def two(jobs: list[BatchJob[Line]], ctx: Context) -> None: ...
    def none() -> None: ...
    def other(jobs: list[int]) -> None: ...

    for function in (two, none, other):
        with pytest.raises(ConfigurationError, match=r"list\[BatchJob"):
            app.task(batch=5)(function)  # type: ignore[arg-type]  # that it is wrong


async def test_events_and_keys_reach_a_batch_handler(app: App) -> None:
    seen: list[Line] = []

    @app.event("line.*").on(batch=5, concurrency_key=lambda payload: payload.number)
    async def on_line(jobs: list[BatchJob[Line]]) -> None:
        seen.extend(job.payload for job in jobs)

    app.event("line.new").send(number=3, text="x")
    app.event("line.old").send(number=4)
    await drain(app)
    assert sorted(seen, key=lambda line: line.number) == [Line(3, "x"), Line(4)]


def claimed(app: App, answered_at: float) -> tuple[list[Any], InFlight, WorkerSlots]:
    """Claim two jobs as a worker of three slots does, whose claim was answered then."""
    claim = app.store.run(app.store.queue.claim(ClaimRequest(worker="w", limit=2)))
    inflight = InFlight()
    held, _ = inflight.take(claim.jobs, asked_at=0.0, answered_at=answered_at)
    return held, inflight, WorkerSlots(3, inflight)


async def test_none_comes_late_because_the_first_of_its_batch_has_time(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C42. The first has, if its dependencies were loaded, or after a claim that was in vain."""
    monkeypatch.setattr("fencepost.worker.run.inflight.START_WITHIN", 5.0)
    monkeypatch.setattr("fencepost.worker.run.batch.BATCH_MARGIN", 4.9)
    monkeypatch.setattr("fencepost.core.values.batch.BATCH_WAIT_MAX", 8.0)
    sizes: list[int] = []

    @app.task(batch=3, batch_wait=8)
    async def note(jobs: list[BatchJob[Line]]) -> None:
        sizes.append(len(jobs))

    note.submit_many([Line(1), Line(2)])
    held, inflight, slots = claimed(app, app.session.clock.monotonic())
    held[0].start_by = math.inf
    executor = executor_of(app, slots, inflight)
    executor.take(held)
    await eventually(lambda: slots.taken == 0)
    assert sizes == [2]
    await executor.close()


async def test_a_batch_that_a_closing_loop_cancels_before_it_starts_is_released(app: App) -> None:
    """C41: what has not started is not counted, and does not wait for its lease to expire."""

    @app.task(batch=2)
    async def never(jobs: list[BatchJob[Line]]) -> None:
        raise AssertionError

    never.submit_many([Line(1), Line(2)])
    held, inflight, slots = claimed(app, math.inf)
    executor = executor_of(app, slots, inflight)
    executor.take(held)
    for attempt in list(slots.running.values()):
        assert attempt.future is not None
        attempt.future.cancel()
    await eventually(lambda: slots.taken == 0)
    assert [each.decision.event for each in executor.settler.pending] == [Event.RELEASE] * 2
    await executor.close()
