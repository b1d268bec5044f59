"""``app.cron`` and ``app.crons``: declaring, looking, steering."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fencepost import App, ConfigurationError, InvalidPayloadError, Priority, State, TaskHandle
from fencepost.core.bounds import CRONS_MAX
from fencepost.errors import CronNotFoundError, InvalidCronError
from fencepost.maintenance import Ticker
from fencepost.store.interface.records.crons import definition_of
from fencepost.testing import drain
from fencepost.testing.clock import FakeClock

START = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def app(url: str, clock: FakeClock) -> Iterator[App]:
    with App(url, clock=clock) as app:
        yield app


def report(app: App, **options: Any) -> TaskHandle[..., Any]:
    @app.cron("30 2 * * *", tz="Europe/Berlin", **{"arguments": {"to": "a@b.c"}, **options})
    @app.task(queue="reports", priority=Priority.HIGH)
    def report(to: str, subject: str = "hi") -> None: ...

    return report


def work(app: App) -> None:
    """Do what a worker does, but for moving the clock: fire what is due, and run it."""
    asyncio.run(Ticker(app.store, app.session.crons, app.session.counters).step())
    drain(app)


# Declaring.


def test_a_cron_over_a_task_leaves_it_a_task(app: App) -> None:
    task = report(app)
    assert isinstance(task, TaskHandle)
    assert task.submit("x").state is State.SCHEDULED


def test_a_cron_over_a_function_makes_it_a_task(app: App) -> None:
    @app.cron("@hourly")
    def clean() -> None: ...

    assert isinstance(clean, TaskHandle)
    assert app.session.crons["clean"].template.type == "clean"


def test_a_task_may_have_several_crons_under_names_of_their_own(app: App) -> None:
    @app.cron("0 18 * * *", name="evening")
    @app.cron("0 9 * * *", name="morning", tz=ZoneInfo("Asia/Tokyo"))
    def greet() -> None: ...

    assert [(each.name, each.tz) for each in app.crons.list()] == [
        ("evening", "UTC"),
        ("morning", "Asia/Tokyo"),
    ]


def test_two_crons_of_one_name_are_refused(app: App) -> None:
    report(app)
    with pytest.raises(ConfigurationError, match="two crons are called 'report'"):
        report(app, arguments={"to": "somebody else"})


def test_the_same_cron_twice_comes_from_a_module_that_was_loaded_twice(app: App) -> None:
    report(app)
    report(app)
    assert len(app.session.crons) == 1


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"arguments": {}}, InvalidPayloadError, "to"),
        ({"arguments": {"to": 5}}, InvalidPayloadError, "Expected `str`, got `int`"),
        ({"arguments": {"to": "x", "from": "y"}}, InvalidPayloadError, "from"),
        ({"arguments": ["x"]}, ConfigurationError, "arguments must map names to values"),
        ({"missed": "all"}, ConfigurationError, 'one of "latest", "skip", "catch_up"'),
        ({"missed": "catch_up", "catch_up": 0}, ConfigurationError, "between 1 and 1,000"),
        ({"catch_up": 5}, ConfigurationError, 'add missed="catch_up"'),
        ({"name": ""}, ConfigurationError, "the name of a cron"),
    ],
)
def test_a_cron_that_makes_no_sense_is_refused_where_it_is_declared(
    app: App, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        report(app, **options)
    assert app.session.crons == {}


def test_times_that_make_no_sense_are_refused_where_they_are_declared(app: App) -> None:
    for expression, tz in (("every day", "UTC"), ("0 9 * * *", "Berlin"), ("* * * * * *", "UTC")):
        with pytest.raises(InvalidCronError):
            app.cron(expression, tz=tz)(lambda: None)


def test_a_cron_decides_when_its_jobs_run(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(ConfigurationError, match="run_at"):
        app.cron("@daily")(work.using(run_at=START))
    with pytest.raises(ConfigurationError, match="transaction"):
        app.cron("@daily")(work.using(conn=object()))


def test_options_of_the_task_are_those_of_its_jobs(app: App) -> None:
    @app.task
    def work() -> None: ...

    app.cron("@daily", name="one")(work.using(queue="slow", key="ignored", tags={"a": "b"}))
    template = app.session.crons["one"].template
    assert (template.queue, template.tags, template.key) == ("slow", {"a": "b"}, None)


def test_an_app_has_so_many_crons_and_no_more(app: App) -> None:
    @app.task
    def work() -> None: ...

    for number in range(CRONS_MAX):
        app.cron("@daily", name=f"cron {number}")(work)
    with pytest.raises(ConfigurationError, match="cron limit"):
        app.cron("@daily", name="one too many")(work)


# Working.


def test_a_worker_fires_what_is_due_and_runs_it(app: App, clock: FakeClock) -> None:
    ran: list[str] = []

    @app.cron("30 2 * * *", tz="Europe/Berlin", arguments={"to": "you"})
    def tell(to: str) -> None:
        ran.append(f"{to} {clock.now():%d %H:%M}")

    work(app)
    assert ran == []
    for day in (28, 29, 30):
        clock.advance(max(datetime(2026, 3, day, 1, 30, tzinfo=UTC) - clock.now(), timedelta(0)))
        work(app)
    assert ran == ["you 29 01:30", "you 30 01:30"]
    keys = [job.key for job in reversed(app.jobs.find().jobs)]
    assert keys == ["cron:tell:2026-03-29T01:00:00Z", "cron:tell:2026-03-30T00:30:00Z"]


def test_a_worker_that_ends_when_idle_fires_what_is_due_first(url: str) -> None:
    """`fencepost worker --burst`, started by whatever starts it."""
    ran: list[int] = []
    with App(url) as app:

        @app.cron("* * * * *")
        def tell() -> None:
            ran.append(1)

        definition = definition_of(app.session.crons["tell"], START)
        app.store.run(app.store.crons.declare([definition]))
        app.worker().run(until_idle=True)
    assert len(ran) == 1


def test_a_worker_of_an_app_without_crons_has_no_ticker(app: App) -> None:
    """It pays nothing for what it does not use."""

    @app.task
    def plain() -> None: ...

    worker = app.worker()
    worker.run(until_idle=True)
    assert worker._pipeline is not None
    assert worker._pipeline.ticker is None
    assert not app.session.counters.get("store.operation", operation="crons")


# Looking.


def test_a_declared_cron_is_listed_before_any_worker_ran(app: App) -> None:
    report(app, missed="catch_up", catch_up=3)
    [cron] = app.crons.list()
    assert (cron.name, cron.expression, cron.tz) == ("report", "30 2 * * *", "Europe/Berlin")
    assert (cron.missed, cron.catch_up, cron.is_paused) == ("catch_up", 3, False)
    assert cron.next_tick == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert cron.declared_at is None
    assert cron.description == "Every day at 02:30"
    work(app)
    [cron] = app.crons.list()
    assert cron.declared_at is not None


def test_the_next_times_are_those_of_the_stores_clock(app: App, clock: FakeClock) -> None:
    report(app)
    assert [f"{tick:%m-%d %H:%M}" for tick in app.crons.next("report", 3)] == [
        "03-29 01:00",
        "03-30 00:30",
        "03-31 00:30",
    ]
    assert len(app.crons.next("report")) == 5
    clock.advance("2d")
    assert f"{app.crons.next('report')[0]:%m-%d %H:%M}" == "03-31 00:30"


@pytest.mark.parametrize("count", [0, -1, 1001, True, 1.5])
def test_times_are_asked_for_by_the_dozen_not_by_the_million(app: App, count: Any) -> None:
    report(app)
    with pytest.raises(ConfigurationError, match="between 1 and 1000"):
        app.crons.next("report", count)


def test_what_nobody_has_declared_is_not_found(app: App) -> None:
    for act in (app.crons.pause, app.crons.resume, app.crons.run, app.crons.next, app.crons.forget):
        with pytest.raises(CronNotFoundError, match="no cron is called 'nobody'"):
            act("nobody")
        with pytest.raises(ConfigurationError):
            act("a\0b")


# Steering.


def test_run_submits_a_job_now_and_leaves_the_schedule_alone(app: App) -> None:
    report(app)
    work(app)
    [before] = app.crons.list()
    jobs = [app.crons.run("report"), app.crons.run("report")]
    assert len({job.id for job in jobs}) == 2
    job = jobs[0].refresh()
    assert (job.type, job.queue, job.priority) == ("report", "reports", Priority.HIGH)
    assert (job.state, job.key) == (State.SCHEDULED, None)
    [after] = app.crons.list()
    assert after == before


def test_run_is_now_also_for_jobs_that_a_tick_would_delay(app: App) -> None:
    @app.task
    def work() -> None: ...

    app.cron("@daily")(work.using(delay="1h"))
    assert app.crons.run("work").state is State.SCHEDULED


def test_everything_can_be_done_from_the_store_alone(app: App, url: str, clock: FakeClock) -> None:
    report(app)
    work(app)
    other = App(url, clock=clock, store=app.store if url == "memory://" else None)
    assert other.crons.run("report").type == "report"
    assert other.crons.next("report", 1) == app.crons.next("report", 1)
    other.crons.pause("report")
    assert app.crons.list()[0].is_paused
    other.crons.resume("report")
    assert not app.crons.list()[0].is_paused
    other.crons.forget("report")
    assert other.crons.list() == []


def test_a_paused_cron_makes_no_jobs_and_makes_up_for_none(app: App, clock: FakeClock) -> None:
    report(app)
    work(app)
    app.crons.pause("report")
    clock.advance("3d")
    work(app)
    app.crons.resume("report")
    work(app)
    assert app.jobs.count() == 0
    clock.advance("1d")
    work(app)
    assert app.jobs.count() == 1


def test_a_cron_can_be_paused_before_any_worker_knows_it(app: App, clock: FakeClock) -> None:
    report(app)
    app.crons.resume("report")
    app.crons.pause("report")
    clock.advance("3d")
    work(app)
    assert app.jobs.count() == 0
    assert app.crons.list()[0].is_paused


async def test_the_async_face_does_the_same(app: App) -> None:
    report(app)
    job = await app.aio.crons.run("report")
    assert (await job.refresh()).type == "report"
    await app.aio.crons.pause("report")
    [cron] = await app.aio.crons.list()
    assert cron.is_paused
    await app.aio.crons.resume("report")
    assert len(await app.aio.crons.next("report", 2)) == 2
    await app.aio.crons.forget("report")
    with pytest.raises(CronNotFoundError):
        await app.aio.crons.forget("report")
