"""What the log says of attempts: every end of one, with all that a reader needs to go on."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from tests.worker import isolated
from tests.worker.support import drain, ended, eventually, take_leases_away, working

from fencepost import App, JobLogFilter, PermanentError, Retry, Snooze

ONE_MORE = Retry(max_attempts=2, initial_delay=0.01)

Records = pytest.LogCaptureFixture


def of(caplog: Records, event: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if vars(each).get("fencepost_event") == event]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = vars(record)["fencepost_fields"]
    return found


async def test_a_failure_that_is_retried_is_a_warning_and_the_last_an_error(
    sqlite_app: App, caplog: Records
) -> None:
    @sqlite_app.task(retry=ONE_MORE)
    async def send_mail(to: str) -> None:
        raise ValueError("no such address")

    job = send_mail.submit("a@b.c")
    with caplog.at_level(logging.INFO):
        async with working(sqlite_app):
            await ended(job)
    [retried] = of(caplog, "attempt.retried")
    [failed] = of(caplog, "attempt.failed")
    assert (retried.levelno, failed.levelno) == (logging.WARNING, logging.ERROR)
    assert (retried.name, failed.name) == ("fencepost.jobs", "fencepost.jobs")
    for record, attempt in ((retried, 1), (failed, 2)):
        known = fields(record)
        assert (known["id"], known["type"], known["queue"]) == (job.id, "send_mail", "default")
        assert (known["attempt"], known["max_attempts"]) == (attempt, 2)
        assert (known["error"], known["message"]) == ("builtins.ValueError", "no such address")
        assert known["seconds"] >= 0
        text = record.getMessage()
        for part in (job.id, "send_mail", f"attempt {attempt} of 2", known["worker"], "default"):
            assert part in text
        assert "ValueError: no such address" in text
    assert retried.exc_info is None
    assert fields(retried)["retry_in"] > 0
    assert "next attempt in" in retried.getMessage()
    assert failed.exc_info is not None
    assert isinstance(failed.exc_info[1], ValueError)
    assert f"fencepost jobs show {job.id}" in failed.getMessage()


async def test_a_logged_traceback_begins_in_the_handler(sqlite_app: App, caplog: Records) -> None:
    @sqlite_app.task
    async def on_the_loop() -> None:
        raise PermanentError("no")

    @sqlite_app.task
    def in_a_thread() -> None:
        raise PermanentError("no")

    jobs = [on_the_loop.submit(), in_a_thread.submit()]
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    records = of(caplog, "attempt.failed")
    assert len(records) == 2
    for record in records:
        assert record.exc_info is not None
        assert record.exc_info[2] is not None
        assert record.exc_info[2].tb_frame.f_code.co_filename == __file__
        assert "permanent" in record.getMessage()
    for job in jobs:
        failure = job.refresh().failure
        assert failure is not None
        assert failure.traceback is not None
        assert failure.traceback.splitlines()[1].startswith(f'  File "{__file__}"')


async def test_a_failure_in_a_child_is_logged_with_the_traceback_from_there(
    sqlite_app: App, caplog: Records
) -> None:
    fail = sqlite_app.task(isolation="process")(isolated.fail)
    job = fail.submit("permanent")
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    [record] = of(caplog, "attempt.failed")
    shown = logging.Formatter().format(record)
    assert "isolated.py" in shown
    assert job.id in shown


async def test_a_child_that_dies_is_logged_with_its_job(sqlite_app: App, caplog: Records) -> None:
    die = sqlite_app.task(isolation="process", retry=Retry.none())(isolated.die)
    job = die.submit("exit")
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    [died] = of(caplog, "child.died")
    assert (fields(died)["id"], fields(died)["type"]) == (job.id, "die")
    [failed] = of(caplog, "attempt.failed")
    assert fields(failed)["error"] == "process_died"


async def test_each_success_is_one_line_of_information(sqlite_app: App, caplog: Records) -> None:
    @sqlite_app.task
    async def work() -> None: ...

    jobs = work.submit_many([()] * 3)
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    records = of(caplog, "attempt.succeeded")
    assert {fields(each)["id"] for each in records} == {job.id for job in jobs}
    assert {each.levelno for each in records} == {logging.INFO}
    assert all("correlation_id" not in fields(each) for each in records)
    assert all("None" not in each.getMessage() for each in records)


async def test_successes_are_silent_at_level_warning(sqlite_app: App, caplog: Records) -> None:
    @sqlite_app.task
    async def work() -> None: ...

    work.submit()
    with caplog.at_level(logging.WARNING):
        await drain(sqlite_app)
    assert caplog.records == []


async def test_a_snooze_is_no_failure(sqlite_app: App, caplog: Records) -> None:
    @sqlite_app.task
    async def work() -> None:
        raise Snooze("1h")

    work.submit()
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    [record] = of(caplog, "attempt.snoozed")
    assert (record.levelno, fields(record)["retry_in"]) == (logging.INFO, 3600.0)
    assert "snoozed for 1 h" in record.getMessage()


async def test_a_timeout_is_named_and_so_is_its_job(sqlite_app: App, caplog: Records) -> None:
    @sqlite_app.task(timeout=0.05, retry=Retry.none())
    async def slow() -> None:
        await asyncio.sleep(60)

    job = slow.submit()
    with caplog.at_level(logging.INFO):
        await drain(sqlite_app)
    [record] = of(caplog, "attempt.failed")
    assert "ran longer than its timeout of 0.05 s" in record.getMessage()
    assert (fields(record)["id"], fields(record)["error"]) == (job.id, "execution_timeout")


async def test_an_ordinary_cancel_is_information(sqlite_app: App, caplog: Records) -> None:
    begun = asyncio.Event()

    @sqlite_app.task
    async def long() -> None:
        begun.set()
        await asyncio.sleep(60)

    with caplog.at_level(logging.INFO):
        async with working(sqlite_app, lease_ttl=1.0):
            job = long.submit()
            await begun.wait()
            await job.aio.cancel()
            await eventually(lambda: of(caplog, "attempt.cancelled") or None)
    [record] = of(caplog, "attempt.cancelled")
    assert (record.levelno, fields(record)["id"]) == (logging.INFO, job.id)
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


async def test_a_lost_lease_names_its_job(sqlite_app: App, caplog: Records) -> None:
    begun = asyncio.Event()

    @sqlite_app.task
    async def long() -> None:
        begun.set()
        await asyncio.sleep(60)

    with caplog.at_level(logging.INFO):
        async with working(sqlite_app, lease_ttl=1.0):
            job = long.submit()
            await begun.wait()
            take_leases_away(sqlite_app)
            await eventually(lambda: of(caplog, "attempt.interrupted") or None)
            job.cancel()
    lost, *_ = of(caplog, "lease.lost")
    assert (fields(lost)["id"], fields(lost)["type"]) == (job.id, "long")
    interrupted, *_ = of(caplog, "attempt.interrupted")
    assert (interrupted.levelno, fields(interrupted)["id"]) == (logging.WARNING, job.id)


async def test_lines_of_a_handler_carry_its_job(sqlite_app: App) -> None:
    """Also those of what it calls and awaits, and only those."""
    mine = logging.getLogger("tests.mine")
    lines: list[str] = []
    handler = ListHandler(lines)
    handler.addFilter(JobLogFilter())
    handler.setFormatter(logging.Formatter("%(message)s %(job_id)s %(job_type)s %(job_attempt)s"))
    mine.addHandler(handler)
    mine.setLevel(logging.INFO)

    async def deeper(text: str) -> None:
        await asyncio.sleep(0)
        mine.info(text)

    @sqlite_app.task
    async def on_the_loop(number: int) -> None:
        mine.info("begins")
        await asyncio.gather(deeper("a"), deeper("b"))

    @sqlite_app.task
    def in_a_thread() -> None:
        mine.info("begins")

    jobs = [on_the_loop.submit(1), on_the_loop.submit(2)]
    other = in_a_thread.submit()
    try:
        await drain(sqlite_app)
        mine.info("outside")
    finally:
        mine.removeHandler(handler)
    expected = {f"{text} {job.id} on_the_loop 1" for job in jobs for text in ("begins", "a", "b")}
    expected |= {f"begins {other.id} in_a_thread 1", "outside - - -"}
    assert set(lines) == expected
    assert len(lines) == len(expected)


class ListHandler(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


def test_a_handler_that_blocks_the_loop_is_named_with_its_line(
    sqlite_app: App, caplog: Records
) -> None:
    @sqlite_app.task
    async def blocks() -> None:
        await asyncio.sleep(0)
        time.sleep(1.5)

    line = blocks.__wrapped__.__code__.co_firstlineno + 3
    job = blocks.submit()
    with caplog.at_level(logging.WARNING):
        sqlite_app.worker().run(until_idle=True)
    [record] = of(caplog, "loop.lag")
    known = fields(record)
    assert (known["id"], known["type"]) == (job.id, "blocks")
    assert known["where"] == f"{__file__}:{line}"
    assert 0.5 <= known["seconds"] < 30
