"""Idempotency keys through the app: both modes, and the handle of the job that is there."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.worker.support import drain

from fencepost import App, DuplicateJobError, EncryptionKey, JobHandle, State
from fencepost.app import AsyncJobHandle
from fencepost.observe.log import EVENT, FIELDS
from fencepost.testing.clock import FakeClock


def test_a_duplicate_returns_the_existing_job(app: App) -> None:
    """S1-9, C15: no new job, and the handle says so."""

    @app.task
    def work(x: int) -> None: ...

    first = work.using(key="k").submit(1)
    second = work.using(key="k").submit(2)
    assert (second.id, second.duplicate, first.duplicate) == (first.id, True, False)
    assert (second.differs, first.differs) == (("$.x",), ())
    assert work.using(key="k").submit(1).differs == ()
    assert app.jobs.count() == 1
    assert app.session.counters.get("job.duplicate") == 2


async def test_a_duplicate_can_be_rejected_with_a_handle_on_the_existing_job(app: App) -> None:
    """S3-12, C15: attaching to the existing job is one call, in either face."""

    @app.task
    async def work(x: int) -> int:
        return x

    first = work.using(key="k").submit(1)
    with pytest.raises(DuplicateJobError) as caught:
        work.using(key="k", on_duplicate="reject").submit(2)
    error = caught.value
    assert (error.code, error.existing_id) == ("duplicate_key", first.id)
    assert (error.type, error.key, error.differs) == ("work", "k", ("$.x",))
    assert "differs at $.x" in str(error)
    assert isinstance(error.existing, JobHandle)
    assert error.existing.duplicate
    with pytest.raises(DuplicateJobError) as caught:
        await work.using(key="k", on_duplicate="reject").aio.submit(2)
    assert isinstance(caught.value.existing, AsyncJobHandle)
    await drain(app)
    assert error.existing.result(0) == 1
    assert await caught.value.existing == 1


SECRET = "not-for-the-log"


async def test_a_key_used_for_another_payload_is_logged_without_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for each submission, however it is made; one with the same payload is nothing new."""

    @app.task
    def work(x: str, secret: str = SECRET) -> None: ...

    first = work.using(key="k").submit("1")
    rejecting = work.using(key="k", on_duplicate="reject")
    work.using(key="k").submit("1")
    assert not caplog.records
    work.using(key="k").submit("2", SECRET + "!")
    await work.using(key="k").aio.submit("2")
    work.using(key="k").submit_many([("2",), ("1",)])
    for submit in (partial(rejecting.submit, "2"), partial(rejecting.submit_many, [("2",)])):
        with pytest.raises(DuplicateJobError) as caught:
            submit()
        assert caught.value.differs == ("$.x",)
        assert SECRET not in str(caught.value)
    warned = [each for each in caplog.records if getattr(each, EVENT) == "job.differs"]
    assert [each.levelname for each in warned] == ["WARNING"] * 5
    assert all(
        getattr(each, FIELDS) == {"id": first.id, "type": "work", "key": "k"} for each in warned
    )
    assert SECRET not in caplog.text


def test_a_payload_that_cannot_be_decrypted_cannot_be_compared(path: Path) -> None:
    def work(x: int) -> None: ...

    def opened(key: str) -> App:
        return App(f"sqlite:///{path}", keys=[EncryptionKey(key, key.encode() * 32)])

    with opened("a") as app:
        task = app.task(work)
        task.using(key="k").submit(1)
        assert task.using(key="k").submit(2).differs == ("$.x",)
        assert task.using(key="k").submit(1).differs == ()
    with opened("b") as app:
        again = app.task(work).using(key="k").submit(2)
        assert (again.duplicate, again.differs) == (True, None)


def test_a_key_is_scoped_to_its_type(app: App) -> None:
    """S1-8."""

    @app.task
    def one() -> None: ...

    @app.task
    def two() -> None: ...

    assert one.using(key="k").submit() != two.using(key="k").submit()
    assert app.jobs.count() == 2


def test_a_key_is_held_for_its_window_and_then_free(url: str) -> None:
    """S1-8, S1-10: 24 h unless said otherwise, also after the job has ended."""
    clock = FakeClock()
    with App(url, clock=clock) as app:

        @app.task
        def work() -> None: ...

        job = work.using(key="k").submit()
        job.cancel()
        clock.advance("23h")
        assert work.using(key="k").submit().id == job.id
        clock.advance("2h")
        assert work.using(key="k").submit().id != job.id
        brief = work.using(key="b", key_window="1m").submit()
        brief.cancel()
        clock.advance("61s")
        assert work.using(key="b").submit().id != brief.id


def test_an_active_key_is_free_when_its_job_has_ended(app: App) -> None:
    """S3-13."""

    @app.task
    def work() -> None: ...

    active = work.using(key="k", key_window="active")
    first = active.submit()
    assert active.submit().id == first.id
    first.cancel()
    assert active.submit().id != first.id


async def test_submit_idempotent_refuses_while_the_key_is_active(app: App) -> None:
    """S3-12, S3-13, S3-14, S3-15, C15: active and reject, whatever ``using`` said."""

    @app.task
    async def work(x: int) -> int:
        return x

    lenient = work.using(key="other", on_duplicate="return")
    first = lenient.submit_idempotent("k", 1)
    assert first.refresh().key == "k"
    for submit in (lenient.submit_idempotent, lenient.wait_idempotent):
        with pytest.raises(DuplicateJobError) as caught:
            submit("k", 2)
        assert caught.value.existing == first
    for coroutine in (lenient.aio.submit_idempotent, lenient.aio.wait_idempotent):
        with pytest.raises(DuplicateJobError):
            await coroutine("k", 2)
    await drain(app)
    assert lenient.submit_idempotent("k", 3).duplicate is False
    assert app.jobs.count() == 2


async def test_of_many_equal_submissions_at_once_one_is_stored(app: App) -> None:
    """S1-9, S3-12: all in one group commit, most likely."""

    @app.task
    async def work(x: int) -> None: ...

    keyed = work.using(key="k").aio
    handles = await asyncio.gather(*(keyed.submit(x) for x in range(50)))
    assert len({handle.id for handle in handles}) == 1
    assert sum(not handle.duplicate for handle in handles) == 1
    assert app.jobs.count() == 1


async def test_rejected_duplicates_do_not_disturb_their_group(app: App) -> None:
    """S3-12: each caller hears of its own job only."""

    @app.task
    async def work(x: int) -> None: ...

    rejecting = work.using(key="k", on_duplicate="reject").aio
    replies = await asyncio.gather(
        *(rejecting.submit(x) for x in range(10)),
        *(work.aio.submit(x) for x in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(reply, DuplicateJobError) for reply in replies) == 9
    assert app.jobs.count() == 11


def test_a_bulk_with_a_rejected_duplicate_stores_nothing(app: App) -> None:
    """S3-12, C15: all or none; the error carries a handle here too."""

    @app.task
    async def work(x: int) -> None: ...

    first = work.using(key="k").submit(0)
    rejecting = work.using(key="k", on_duplicate="reject")
    with pytest.raises(DuplicateJobError) as caught:
        app.submit_many([work.prepare(1), rejecting.prepare(2), work.prepare(3)])
    assert caught.value.existing == first
    with pytest.raises(DuplicateJobError) as caught:
        rejecting.submit_many([1, 2])
    assert caught.value.existing == first
    assert isinstance(caught.value.existing, JobHandle)
    assert app.jobs.count() == 1


async def test_an_awaited_bulk_with_a_rejected_duplicate_stores_nothing(app: App) -> None:
    """S3-12, C15."""

    @app.task
    async def work(x: int) -> None: ...

    first = work.using(key="k").submit(0)
    rejecting = work.using(key="k", on_duplicate="reject")
    with pytest.raises(DuplicateJobError) as caught:
        await app.aio.submit_many([work.prepare(1), rejecting.prepare(2), work.prepare(3)])
    assert caught.value.existing == first
    with pytest.raises(DuplicateJobError) as caught:
        await rejecting.aio.submit_many([1, 2])
    assert isinstance(caught.value.existing, AsyncJobHandle)
    assert app.jobs.count() == 1


async def test_a_manual_retry_needs_its_key_to_be_free(app: App) -> None:
    """S3-17, S3-18, C36: refused, and the job stays terminal."""

    @app.task
    async def work(x: int) -> None: ...

    first = work.submit_idempotent("k", 1)
    first.cancel()
    second = work.submit_idempotent("k", 2)
    for retry in (first.retry, lambda: app.jobs.retry(first.id)):
        with pytest.raises(DuplicateJobError) as caught:
            retry()
        assert caught.value.existing == second
    assert first.refresh().state is State.CANCELLED
    second.cancel()
    first.retry()
    assert first.state is State.SCHEDULED
    with pytest.raises(DuplicateJobError):
        work.submit_idempotent("k", 3)
