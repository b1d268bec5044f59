"""Looking at jobs and steering them through the app."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.worker.support import drain

from fencepost import (
    App,
    ConfigurationError,
    DuplicateJobError,
    InvalidJobError,
    InvalidPayloadError,
    JobHandle,
    JobNotFoundError,
    PermanentError,
    Priority,
    Retry,
    State,
    StateConflictError,
)
from fencepost.actions.replies import StoredJob
from fencepost.app import TaskHandle
from fencepost.core.limits.rates import Rate
from fencepost.errors import InvalidRateError
from fencepost.store.interface.records.cluster import WorkerInfo

NOBODY = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"


@pytest.fixture
def work(app: App) -> TaskHandle[[int], int]:
    async def work(x: int) -> int:
        return x

    return app.task(work)


@pytest.fixture
def fail(app: App) -> TaskHandle[[], None]:
    async def fail() -> None:
        raise PermanentError("no", code="e1")

    return app.task(fail)


def test_a_bulk_is_stored_whole_in_one_operation(app: App, work: TaskHandle[[int], int]) -> None:
    """S1-34: in its own order; tuples, mappings and lone values are arguments."""

    @app.task
    def pair(a: int, b: str) -> None: ...

    pair.submit_many([(1, "x"), {"a": 2, "b": "y"}])
    work.submit_many(iter([1, 2, 3]))
    mixed = app.submit_many([work.prepare(9), pair.prepare(3, b="z")])
    assert [job.type for job in mixed] == ["work", "pair"]
    assert app.jobs.count() == 7
    assert app.session.counters.get("store.operation", operation="enqueue") == 3
    assert pair.submit_many([]) == []


async def test_a_bulk_of_the_async_face_is_the_same(app: App, work: TaskHandle[[int], int]) -> None:
    jobs = await work.aio.submit_many(range(3))
    mixed = await app.aio.submit_many([work.aio.prepare(9)])
    await drain(app)
    assert [await job for job in [*jobs, *mixed]] == [0, 1, 2, 9]


def test_a_bulk_with_one_bad_member_stores_nothing(app: App, work: TaskHandle[..., int]) -> None:
    """S1-90: checked before anything is sent."""
    with pytest.raises(Exception, match="Expected `int`"):
        work.submit_many([1, 2, "three"])
    assert app.jobs.count() == 0


def test_a_bulk_is_bounded(
    app: App, work: TaskHandle[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.actions.options.BULK_MAX", 3)
    with pytest.raises(Exception, match="at most 3 jobs"):
        work.submit_many(range(4))
    with pytest.raises(Exception, match="split them"):
        app.submit_many([work.prepare(1)] * 4)
    assert app.jobs.count() == 0


def test_jobs_are_found_by_what_they_are(app: App, work: TaskHandle[[int], int]) -> None:
    """S1-107, S1-108: newest first, page by page."""
    tagged = work.using(tags={"tenant": "7"}, correlation_id="c1", queue="mail").submit(1)
    plain = work.submit(2)
    plain.cancel()
    find = app.jobs.find
    assert [job.id for job in find()] == [plain.id, tagged.id]
    for conditions in (
        {"tags": {"tenant": "7"}},
        {"correlation_id": "c1"},
        {"queue": "mail"},
        {"state": "scheduled"},
        {"state": ["scheduled", State.RUNNING]},
        {"state": "ready", "type": "work"},
    ):
        assert [job.id for job in find(**conditions)] == [tagged.id], conditions
        assert app.jobs.count(**conditions) == 1
    first = find(limit=1)
    assert len(first) == 1
    assert first.next is not None
    second = find(limit=1, after=first.next)
    assert ([job.id for job in second], second.next) == ([tagged.id], None)


async def test_the_async_face_finds_the_same(app: App, work: TaskHandle[[int], int]) -> None:
    job = await work.aio.submit(1)
    jobs = app.aio.jobs
    assert (await jobs.find()).jobs == app.jobs.find().jobs
    assert await jobs.count(type="work") == 1
    assert (await jobs.get(job.id)).id == job.id
    assert (await jobs.why(job.id)) == await job.why() == app.jobs.why(job.id)
    assert (await jobs.attempts(job.id)) == await job.attempts() == []
    assert (await jobs.edit(job.id, priority=0)).priority is Priority.CRITICAL
    assert await jobs.cancel(job.id) == 1
    assert (await job.refresh()).state is State.CANCELLED
    assert await jobs.retry(job.id) is State.SCHEDULED
    await job.cancel()
    await job.retry(delay=60)
    assert job.state is State.DELAYED


def test_cancelling_by_filter(app: App, work: TaskHandle[[int], int]) -> None:
    """S3-9, C20: every live job that meets the conditions, and no other."""
    mail = work.using(queue="mail", tags={"tenant": "7"})
    jobs = mail.submit_many(range(5))
    other = work.submit(9)
    assert app.jobs.cancel(tags={"tenant": "8"}) == 0
    assert app.jobs.cancel(queue="mail", tags={"tenant": "7"}) == 5
    assert {job.refresh().state for job in jobs} == {State.CANCELLED}
    assert other.refresh().state is State.SCHEDULED
    assert app.jobs.cancel(queue="mail") == 0, "they have ended"
    assert app.jobs.cancel(state="completed") == 0
    assert app.jobs.cancel(state="scheduled") == 1


def test_cancelling_by_filter_goes_through_all_pages(
    app: App, work: TaskHandle[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.actions.local.bulk.PAGE_MAX", 3)
    work.submit_many(range(10))
    assert app.jobs.cancel(type="work") == 10


@pytest.mark.parametrize("conditions", [{}, {"tags": {}}, {"state": None}, {"state": []}])
def test_cancelling_everything_by_mistake_is_refused(
    app: App, work: TaskHandle[[int], int], conditions: dict[str, Any]
) -> None:
    work.submit(1)
    with pytest.raises(ConfigurationError, match="every job"):
        app.jobs.cancel(**conditions)
    assert app.jobs.count(state="scheduled") == 1


def test_what_is_not_there_is_not_found(app: App) -> None:
    for ask in (
        app.jobs.get,
        app.jobs.cancel,
        app.jobs.retry,
        app.jobs.why,
        app.jobs.attempts,
        app.dead_letters.replay,
        app.dead_letters.discard,
        lambda id: app.jobs.edit(id, priority=1),
        lambda id: JobHandle(app.session, StoredJob(id, "t", State.SCHEDULED)).result(1),
    ):
        for job_id in (NOBODY, "not an id"):
            with pytest.raises(JobNotFoundError) as caught:
                ask(job_id)
            assert (caught.value.code, caught.value.job_id) == ("job_not_found", job_id)


async def test_a_manual_retry_runs_the_same_job_again(app: App, fail: TaskHandle[[], None]) -> None:
    """S1-3, S3-8, C36: a new budget, or exactly one attempt more."""
    job = fail.submit()
    await drain(app)
    assert app.jobs.retry(job.id, priority="high") is State.SCHEDULED
    assert job.refresh().priority is Priority.HIGH
    assert job.refresh().attempt == 0
    await drain(app)
    assert (job.refresh().state, job.refresh().attempt) == (State.FAILED, 1)
    job.retry(reset_attempts=False)
    await drain(app)
    found = job.refresh()
    assert (found.attempt, len(job.attempts())) == (2, 3)
    assert found.lease_version == job.attempts()[-1].lease_version


async def test_a_completed_job_is_never_run_again(app: App, work: TaskHandle[[int], int]) -> None:
    """S0-12, S0-41, C37."""
    job = work.submit(1)
    await drain(app)
    for ask in (job.retry, job.cancel, lambda: app.jobs.edit(job.id, priority=0)):
        with pytest.raises(StateConflictError) as caught:
            ask()
        assert (caught.value.code, caught.value.state) == ("state_conflict", State.COMPLETED)
    with pytest.raises(JobNotFoundError):
        app.dead_letters.replay(job.id)
    assert job.refresh().attempt == 1


def test_editing(app: App, work: TaskHandle[[int], int]) -> None:
    """S1-106, S1-107, C46: what a user said of a job that waits, and nothing of the system's."""
    job = work.using(tags={"a": "1"}, correlation_id="c").submit(1)
    edited = app.jobs.edit(job.id, priority=Priority.BULK, tags={"b": "2"})
    assert (edited.priority, edited.tags) == (Priority.BULK, {"b": "2"})
    assert app.jobs.count(tags={"a": "1"}) == 0
    with pytest.raises(TypeError, match="attempt"):
        app.jobs.edit(job.id, attempt=0)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(Exception, match="priority"):
        app.jobs.edit(job.id, priority=7)


async def test_a_waiting_job_is_given_another_payload_and_another_time(
    app: App, work: TaskHandle[[int], int]
) -> None:
    """C46, S1-94: it runs with what it was given last, and never changes once it has started."""
    job = work.using(delay="1h", correlation_id="c").submit(1)
    edited = app.jobs.edit(job.id, payload={"x": 5}, correlation_id="")
    assert (edited.state, edited.correlation_id) == (State.DELAYED, None)
    for wrong in ({"x": "five"}, {"other": 5}, b"\x00"):
        with pytest.raises(InvalidPayloadError):
            app.jobs.edit(job.id, payload=wrong)
    with pytest.raises(InvalidJobError, match="time zone"):
        app.jobs.edit(job.id, run_at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(InvalidJobError, match="lifetime"):
        app.jobs.edit(job.id, run_at=edited.expires_at)
    for fixed in ({"type": "other"}, {"queue": "other"}):
        with pytest.raises(StateConflictError, match="cannot be changed"):
            app.jobs.edit(job.id, **fixed)  # type: ignore[arg-type]  # one of two
    moved = await app.aio.jobs.edit(job.id, run_at=datetime.now(UTC), type=job.type)
    assert moved.state is State.SCHEDULED
    await drain(app)
    plain = work.submit(5)
    await drain(app)
    assert job.result(0) == plain.result(0)
    with pytest.raises(StateConflictError):
        app.jobs.edit(job.id, payload={"x": 6})


async def test_a_live_job_is_retried_now_or_later(app: App, work: TaskHandle[[int], int]) -> None:
    """S3-8, C45: and who cannot be is told why."""
    job = work.using(delay="1h").submit(1)
    assert app.jobs.retry(job.id, delay="2h") is State.DELAYED
    with pytest.raises(InvalidJobError, match="lifetime"):
        job.retry(delay="8d")
    job.retry()
    assert job.refresh().state is State.SCHEDULED
    with pytest.raises(StateConflictError, match="queued already"):
        job.retry()
    await drain(app)
    job.result(0)
    with pytest.raises(StateConflictError, match="never runs again"):
        await job.aio.retry()


async def test_dead_letters_are_listed_replayed_and_discarded(
    app: App, fail: TaskHandle[[], None]
) -> None:
    """S0-26, S0-61, S3-22, S3-24, S3-25, S3-26, C7."""
    jobs = fail.submit_many([()] * 3)
    await drain(app)
    letters = app.dead_letters.list(type="fail")
    assert (len(letters), {letter.failure.code for letter in letters}) == (3, {"e1"})
    assert app.dead_letters.list(type="other").letters == []
    fresh = app.dead_letters.replay(jobs[0].id)
    assert fresh.id != jobs[0].id
    found = fresh.refresh()
    assert (found.replay_of, found.attempt, found.state) == (jobs[0].id, 0, State.SCHEDULED)
    app.dead_letters.discard(jobs[1].id)
    with pytest.raises(JobNotFoundError):
        app.dead_letters.discard(jobs[1].id)
    assert [letter.job_id for letter in app.dead_letters.list()] == [jobs[2].id]
    assert jobs[1].refresh().state is State.FAILED
    assert app.dead_letters.replay_all(type="fail") == 1
    assert app.dead_letters.list().letters == []


async def test_the_async_face_of_dead_letters(app: App, fail: TaskHandle[[], None]) -> None:
    """S3-24, S3-25."""
    jobs = fail.submit_many([()] * 4)
    await drain(app)
    letters = app.aio.dead_letters
    page = await letters.list(limit=3)
    assert (len(page), page.next is not None) == (3, True)
    assert len(await letters.list(limit=3, after=page.next)) == 1
    assert (await letters.replay(jobs[0].id)).state is State.SCHEDULED
    await letters.discard(jobs[1].id)
    assert await letters.replay_all(limit=1) == 1
    assert len(await letters.list()) == 1


async def test_a_replay_whose_key_is_held_leaves_the_record(app: App) -> None:
    """S3-27: and replaying all steps over it."""

    @app.task(retry=Retry.none())
    async def fail(x: int) -> None:
        raise ValueError

    dead = fail.submit_idempotent("k", 1)
    await drain(app)
    holder = fail.using(delay=60).submit_idempotent("k", 2)
    with pytest.raises(DuplicateJobError) as caught:
        app.dead_letters.replay(dead.id)
    assert caught.value.existing == holder
    with pytest.raises(DuplicateJobError):
        await app.aio.dead_letters.replay(dead.id)
    assert app.dead_letters.replay_all() == 0
    assert [letter.job_id for letter in app.dead_letters.list()] == [dead.id]


def test_why_says_what_keeps_a_job(app: App, work: TaskHandle[[int], int]) -> None:
    """S1-14, S3-19: paused, delayed, no worker, limited, in line."""
    job = work.submit(1)
    assert [reason.code for reason in job.why()] == ["no_worker"]
    store = app.store
    now = app.session.clock.now()
    info = WorkerInfo(
        id="w", host="h", pid=1, queues=None, types=("work",), concurrency=1, started_at=now
    )
    store.run(store.cluster.announce(info))
    assert [reason.code for reason in job.why()] == ["next"]
    assert [reason.code for reason in work.submit(2).why()] == ["in_line"]
    assert [reason.code for reason in work.using(delay=60).submit(3).why()] == ["delayed"]
    app.types.pause("work")
    app.queues.pause("default")
    assert [reason.code for reason in job.why()] == ["type_paused", "queue_paused"]
    app.types.resume("work")
    app.queues.resume("default")
    assert [reason.code for reason in app.jobs.why(job.id)] == ["next"]


async def test_pausing_and_limits_in_both_faces(app: App, work: TaskHandle[[int], int]) -> None:
    """S3-19, S3-21, S2-17."""
    work.submit(1)
    work.pause()
    await app.aio.queues.pause("default")
    await app.aio.queues.limit("default", max_running=2)
    await app.aio.limit(max_running=5)
    [kind] = app.types.list()
    [queue] = app.queues.list()
    assert (kind.is_paused, queue.is_paused, queue.max_running) == (True, True, 2)
    assert app.store.run(app.store.settings.app_limit()) == 5
    assert (kind.counts, queue.counts) == ({State.SCHEDULED: 1}, {State.SCHEDULED: 1})
    await work.aio.resume()
    await app.aio.queues.resume("default")
    await app.aio.queues.limit("default", max_running=None)
    assert await app.aio.types.list() == app.types.list()
    assert await app.aio.queues.list() == app.queues.list()
    assert not app.types.list()[0].is_paused
    app.types.limit("work", rate="100/m")
    assert app.types.list()[0].rate == Rate(100, 60.0)
    await app.aio.types.limit("work", rate=None)
    assert app.types.list()[0].rate is None
    with pytest.raises(InvalidRateError):
        app.types.limit("work", rate="often")
    await work.aio.pause()
    await app.aio.types.resume("work")
    await app.aio.types.pause("work")
    work.resume()
    assert await app.aio.workers.list() == []
    assert await app.aio.migrate() == app.migrate() == []
