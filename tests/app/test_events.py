"""Events through the app: handlers, sending, what is on record; in both faces."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.worker.support import drain

from fencepost import (
    App,
    ConfigurationError,
    Context,
    DuplicateJobError,
    InvalidEventError,
    InvalidJobError,
    InvalidPayloadError,
    JobHandle,
    PayloadTooLargeError,
    PermanentError,
    Priority,
    Retry,
    State,
    StoreUnavailableError,
    TaskHandle,
)
from fencepost.app import AsyncJobHandle, SentHandle
from fencepost.core.events import EVENT_TAG, EventInfo
from fencepost.observe.log import FIELDS
from fencepost.store.interface.records.events import EventsFacet
from fencepost.store.plan import Operation, Plan
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing import FakeContext

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls() -> Calls:
    return []


@pytest.fixture
def handlers(app: App, calls: Calls) -> dict[str, TaskHandle[..., Any]]:
    """Two handlers of users that are created, one of them by a pattern, and one of orders."""

    @app.event("user.created").on
    def welcome(user_id: int) -> str:
        calls.append(("welcome", user_id))
        return f"welcome {user_id}"

    @app.event("user.*").on(queue="search", retry=Retry.none(), priority=Priority.LOW)
    async def index(ctx: Context, user_id: int, **rest: Any) -> None:
        calls.append(("index", user_id, rest, ctx.event))

    @app.event("order.**").on
    def ship(order: int) -> None: ...

    return {"welcome": welcome, "index": index, "ship": ship}


# Sending.


async def test_every_handler_that_matches_gets_a_job(
    app: App, handlers: dict[str, TaskHandle[..., Any]], calls: Calls
) -> None:
    sent = app.event("user.created").send(user_id=7)
    welcome, index = sent.jobs
    assert (welcome.type, index.type) == ("welcome", "index")
    assert [each.state for each in sent.jobs] == [State.SCHEDULED] * 2
    assert not any(each.duplicate for each in sent.jobs)
    await drain(app)
    assert sorted(calls) == [
        ("index", 7, {}, EventInfo(sent.id, "user.created")),
        ("welcome", 7),
    ]
    assert welcome.result(0) == "welcome 7"
    assert app.jobs.count() == 2


async def test_both_faces_send_alike(
    app: App, handlers: dict[str, TaskHandle[..., Any]], calls: Calls
) -> None:
    event = app.event("user.created")
    plain: SentHandle[JobHandle[Any]] = event.send(user_id=1)
    awaited: SentHandle[AsyncJobHandle[Any]] = await event.aio.send(user_id=2)
    again = await event.aio.send_idempotent("k", user_id=3)
    assert [type(each) for each in plain.jobs] == [JobHandle] * 2
    assert [type(each) for each in awaited.jobs + again.jobs] == [AsyncJobHandle] * 4
    assert [each.id for each in app.events.find()] == [again.id, awaited.id, plain.id]
    assert await app.aio.events.find() == app.events.find()
    await drain(app)
    assert await awaited.jobs[0] == "welcome 2"
    assert sorted(user for name, user, *_ in calls if name == "welcome") == [1, 2, 3]


def test_a_handler_is_a_task_like_any_other(
    app: App, handlers: dict[str, TaskHandle[..., Any]]
) -> None:
    index = handlers["index"]
    assert isinstance(index, TaskHandle)
    sent = app.event("user.deleted").send(user_id=7, by="admin")
    (job,) = [each.refresh() for each in sent.jobs]
    assert (job.queue, job.priority, job.max_attempts) == ("search", Priority.LOW, 1)
    direct = index.submit(user_id=8).refresh()
    assert (direct.tags, direct.correlation_id) == ({}, None)
    assert handlers["welcome"](9) == "welcome 9"


async def test_a_job_that_was_submitted_has_no_event(
    app: App, handlers: dict[str, TaskHandle[..., Any]], calls: Calls
) -> None:
    handlers["index"].submit(user_id=8)
    await drain(app)
    assert calls == [("index", 8, {}, None)]


def test_the_jobs_of_an_event_are_found_by_its_id_and_its_name(
    app: App, handlers: dict[str, TaskHandle[..., Any]]
) -> None:
    first = app.event("user.created").send(user_id=1)
    app.event("user.created").send(user_id=2)
    found = app.jobs.find(correlation_id=first.id)
    assert {job.id for job in found} == {job.id for job in first.jobs}
    assert app.jobs.count(tags={EVENT_TAG: "user.created"}) == 4


def test_data_may_have_any_name(app: App) -> None:
    @app.event("a").on
    def work(self: int, key: str, name: str, data: int) -> None: ...

    values = {"self": 1, "key": "x", "name": "y", "data": 2}
    app.event("a").send(**values)
    app.event("a").send_idempotent("k", **values)
    assert [each.data for each in app.events.find()] == [values, values]


def test_what_one_handler_refuses_is_sent_to_none(
    app: App, handlers: dict[str, TaskHandle[..., Any]]
) -> None:
    """S1-93: the error names the handler and the argument; neither event nor job is stored."""
    with pytest.raises(InvalidPayloadError, match=r"'welcome'.*'user\.created'.*int.*user_id"):
        app.event("user.created").send(user_id="seven")
    with pytest.raises(InvalidPayloadError, match=r"'welcome'.*by"):
        app.event("user.created").send(user_id=7, by="admin")
    with pytest.raises(InvalidPayloadError, match=r"'ship'.*order"):
        app.event("order.paid.late").send()
    assert (app.jobs.count(), len(app.events.find())) == (0, 0)


def test_what_no_handler_takes_is_checked_all_the_same(url: str) -> None:
    with App(url, max_payload=100) as app:
        event = app.event("a")
        with pytest.raises(PayloadTooLargeError):
            event.send(x="x" * 100)
        with pytest.raises(InvalidPayloadError, match="JSON"):
            event.send(x=object())
        assert len(app.events.find()) == 0


@pytest.mark.parametrize("pattern", ["user.*", "**"])
async def test_a_pattern_cannot_be_sent(app: App, pattern: str) -> None:
    event = app.event(pattern)
    assert event.pattern == event.aio.pattern == pattern
    for send in (event.send, partial(event.send_idempotent, "k")):
        with pytest.raises(InvalidEventError, match="full name"):
            send()
    with pytest.raises(InvalidEventError, match="full name"):
        await event.aio.send()
    assert len(app.events.find()) == 0


@pytest.mark.parametrize("pattern", ["", "a..b", "a.**.b", "a b", None, 5])
def test_a_pattern_that_is_none_is_refused(app: App, pattern: Any) -> None:
    with pytest.raises(InvalidEventError) as caught:
        app.event(pattern)
    assert caught.value.code == "invalid_event"


async def test_an_event_that_nobody_handles_is_recorded_and_said(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="fencepost"):
        sent = app.event("user.created").send(user_id=7)
        await app.event("user.created").aio.send(user_id=8)
    assert sent.jobs == []
    assert [vars(record)["fencepost_event"] for record in caplog.records] == ["event.unhandled"] * 2
    fields = getattr(caplog.records[0], FIELDS)
    assert fields == {"id": sent.id, "name": "user.created"}
    assert app.session.counters.get("event.unhandled") == 2
    second, first = app.events.find()
    assert (first.id, first.name, first.jobs) == (sent.id, "user.created", ())
    assert (first.data, second.data) == ({"user_id": 7}, {"user_id": 8})
    assert first.sent_at == sent.sent_at


def test_what_is_sent_is_counted_like_what_is_submitted(
    app: App, handlers: dict[str, TaskHandle[..., Any]]
) -> None:
    app.event("user.created").send_idempotent("k", user_id=7)
    app.event("user.created").send(user_id=7)
    counters = app.session.counters
    assert counters.get("event.sent") == 2
    assert counters.get("job.enqueued", state="scheduled") == 4


# Keys.


async def test_an_event_whose_key_is_held_is_refused(
    app: App, handlers: dict[str, TaskHandle[..., Any]], calls: Calls
) -> None:
    """S3-12, S3-16, C15: one live job of the key is enough; its id and handle are in the error."""
    event = app.event("user.created")
    first = event.send_idempotent("k", user_id=7)
    welcome, index = first.jobs
    assert [job.refresh().key for job in first.jobs] == ["k", "k"]
    with pytest.raises(DuplicateJobError) as caught:
        event.send_idempotent("k", user_id=7)
    assert (caught.value.existing_id, caught.value.key) == (welcome.id, "k")
    assert caught.value.existing == welcome
    assert isinstance(caught.value.existing, JobHandle)
    assert caught.value.existing.duplicate
    welcome.cancel()
    with pytest.raises(DuplicateJobError) as caught:
        await event.aio.send_idempotent("k", user_id=7)
    assert isinstance(caught.value.existing, AsyncJobHandle)
    assert (caught.value.existing.id, caught.value.type) == (index.id, "index")
    assert [each.id for each in app.events.find()] == [first.id]  # nothing of the refused ones
    assert app.jobs.count() == 2
    await drain(app)
    assert len(calls) == 1


async def test_a_key_is_free_when_its_job_has_ended(
    app: App, handlers: dict[str, TaskHandle[..., Any]]
) -> None:
    """S3-13: as with submit_idempotent."""
    event = app.event("user.created")
    event.send_idempotent("k", user_id=7)
    await drain(app)
    assert len(event.send_idempotent("k", user_id=7).jobs) == 2


@pytest.mark.parametrize("key", ["", "k" * 257, 5, None])
def test_a_key_that_is_none_is_refused(app: App, key: Any) -> None:
    with pytest.raises(InvalidJobError, match="key"):
        app.event("a").send_idempotent(key)
    assert len(app.events.find()) == 0


# Handlers.


def test_one_function_does_not_take_its_own_place(app: App) -> None:
    """Else the events of the first pattern would find no handler, and nobody would know."""

    def work(x: int) -> None: ...

    app.event("a").on(work)
    app.event("a").on(work)  # a module that is loaded twice
    with pytest.raises(ConfigurationError, match=r"'work' already handles a.*@event.on\(name=…\)"):
        app.event("b").on(work)
    with pytest.raises(ConfigurationError, match="already handles a"):
        app.task(work)
    app.event("b").on(name="work on b")(work)
    assert [job.type for job in app.event("a").send(x=1).jobs] == ["work"]
    assert [job.type for job in app.event("b").send(x=1).jobs] == ["work on b"]


async def test_a_retried_and_a_replayed_job_know_their_event(app: App) -> None:
    seen: list[EventInfo | None] = []

    @app.event("a").on
    async def work(ctx: Context) -> None:
        seen.append(ctx.event)
        raise PermanentError("no")

    sent = app.event("a").send()
    await drain(app)
    app.jobs.retry(sent.jobs[0].id)
    await drain(app)
    app.dead_letters.replay(sent.jobs[0].id)
    await drain(app)
    assert seen == [EventInfo(sent.id, "a")] * 3


def test_a_fake_context_can_have_an_event() -> None:
    event = FakeContext(event="user.created").event
    assert event is not None
    assert event.name == "user.created"
    assert FakeContext().event is None
    with pytest.raises(InvalidEventError):
        FakeContext(event="user.*")


# The tag that says so.


def test_nobody_else_can_say_that_a_job_belongs_to_an_event(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidJobError, match=r"'fencepost\.event'.*call it something else"):
        work.using(tags={EVENT_TAG: "a"})
    job = work.submit()
    with pytest.raises(InvalidJobError, match="call it something else"):
        app.jobs.edit(job.id, tags={EVENT_TAG: "a"})
    assert job.refresh().tags == {}


async def test_tags_can_be_edited_and_the_event_stays(app: App) -> None:
    """S1-107: also by whoever reads the tags, changes one, and writes them back."""

    @app.event("a").on
    def work() -> None: ...

    (job,) = app.event("a").send().jobs
    assert app.jobs.edit(job.id, tags={"x": "1"}).tags == {"x": "1", EVENT_TAG: "a"}
    tags = {**job.refresh().tags, "x": "2"}
    assert (await app.aio.jobs.edit(job.id, tags=tags)).tags == tags
    with pytest.raises(InvalidJobError, match="call it something else"):
        app.jobs.edit(job.id, tags={EVENT_TAG: "b"})
    assert app.jobs.edit(job.id, tags={}).tags == {EVENT_TAG: "a"}


# Looking.


def test_events_are_found_page_by_page_and_by_name(app: App) -> None:
    sent = [app.event(f"a.{name}").send().id for name in ("x", "y", "x")]
    page = app.events.find(limit=2)
    assert ([each.id for each in page], len(page)) == ([sent[2], sent[1]], 2)
    rest = app.events.find(limit=2, after=page.next)
    assert ([each.id for each in rest], rest.next) == ([sent[0]], None)
    assert [each.id for each in app.events.find(name="a.x")] == [sent[2], sent[0]]
    with pytest.raises(InvalidEventError, match="full name"):
        app.events.find(name="a.*")
    with pytest.raises(ConfigurationError, match="not a cursor"):
        app.jobs.find(after=page.next)


# Trouble.


def test_only_postgresql_joins_a_transaction(app: App) -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL only"):
        app.event("a").using(conn=object()).send()


class Failing(SqliteStore):
    """A store whose engine fails at the last statement of whatever it sends."""

    def run(self, operation: Operation[Any]) -> Any:
        if not operation.is_a(EventsFacet.send):
            return super().run(operation)
        return super().run(Operation(operation.declaration, lambda: _failing(operation.start)))


def _failing(start: Callable[[], Plan[Any]]) -> Plan[Any]:
    plan = start()
    statement = next(plan)
    while "insert into events" not in statement.sql:
        statement = plan.send((yield statement))
    raise StoreUnavailableError("the disk is full")


def test_an_event_that_cannot_be_recorded_makes_no_job(tmp_path: Any) -> None:
    """S0-5: a process that dies there leaves as much, which is nothing."""
    store = Failing(str(tmp_path / "jobs.db"))
    with App(store=store) as app:

        @app.event("a").on
        def work() -> None: ...

        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            app.event("a").send()
        assert (app.jobs.count(), len(app.events.find())) == (0, 0)


def test_handles_say_what_they_are(app: App) -> None:
    assert repr(app.event("user.*")) == "<EventHandle user.*>"
    assert repr(app.event("user.*").aio) == "<AsyncEventHandle user.*>"
