"""Spans from submit to handler, read back from an exporter in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.worker import isolated
from tests.worker.support import drain, ended, working

from fencepost import App, Context, PermanentError, Retry, Snooze
from fencepost.core.cron import due
from fencepost.errors import ConfigurationError
from fencepost.maintenance import Ticker
from fencepost.store.interface.records.crons import fire_of

exporter = InMemorySpanExporter()
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="session", autouse=True)
def provider() -> None:
    """One for the process: OpenTelemetry lets nobody replace it."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


@pytest.fixture(autouse=True)
def no_spans() -> Iterator[None]:
    exporter.clear()
    yield
    exporter.clear()


@pytest.fixture(params=["sqlite", "memory"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with App(url, tracing=True, retry=Retry(max_attempts=2, initial_delay=0.01)) as app:
        yield app


def spans(kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.kind is kind]


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_attempt_links_to_its_submission(app: App, is_async: bool) -> None:
    if is_async:

        @app.task(queue="mail")
        async def work(x: int) -> None: ...
    else:

        @app.task(queue="mail")
        def work(x: int) -> None: ...

    job = work.using(correlation_id="c-1").submit(1)
    await drain(app)
    [sent], [run] = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert (sent.name, run.name) == ("submit mail", "process mail")
    common = {
        "messaging.system": "fencepost",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "messaging.message.conversation_id": "c-1",
        "fencepost.job.type": "work",
    }
    assert attributes(sent) == {
        **common,
        "messaging.operation.name": "submit",
        "messaging.operation.type": "send",
    }
    assert attributes(run) == {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "fencepost.job.attempt": 1,
    }
    assert linked(run) == [id_of(sent)]
    assert run.parent is None
    assert run.status.status_code is StatusCode.UNSET


async def test_an_attempt_is_a_child_when_asked(tmp_path: Path) -> None:
    with App("memory://", tracing="parent") as app:

        @app.task
        async def work() -> None: ...

        with trace.get_tracer("test").start_as_current_span("request") as request:
            await work.aio.submit()
        await drain(app)
    [sent], [run] = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert run.parent is not None
    assert run.parent.span_id == id_of(sent)
    assert run.context is not None
    assert run.context.trace_id == request.get_span_context().trace_id
    assert not run.links


async def test_a_bulk_is_one_span_that_every_attempt_links_to(app: App) -> None:
    @app.task
    async def work(x: int) -> None: ...

    work.submit_many(range(3))
    await app.aio.submit_many([work.prepare(3), work.using(queue="other").prepare(4)])
    app.submit_many([])
    await drain(app)
    first, second = spans(SpanKind.PRODUCER)
    assert attributes(first)["messaging.batch.message_count"] == 3
    assert (first.name, second.name) == ("submit default", "submit")
    assert "messaging.destination.name" not in attributes(second)
    links = [link for run in spans(SpanKind.CONSUMER) for link in linked(run)]
    assert sorted(links) == sorted([id_of(first)] * 3 + [id_of(second)] * 2)


async def test_every_attempt_has_a_span_and_failures_are_errors_without_their_message(
    app: App,
) -> None:
    """S1-95: a message may hold what was in the payload, and spans leave the house."""

    @app.task
    async def work() -> None:
        raise ValueError(SECRET)

    @app.task
    def refuse() -> None:
        raise PermanentError(SECRET)

    jobs = [work.submit(), refuse.submit()]
    async with working(app):
        for job in jobs:
            await ended(job)
    runs = spans(SpanKind.CONSUMER)
    seen = [attributes(run) for run in runs]
    kinds = sorted((each["error.type"], each["fencepost.job.attempt"]) for each in seen)
    assert kinds == [("PermanentError", 1), ("ValueError", 1), ("ValueError", 2)]
    assert {run.status.status_code for run in runs} == {StatusCode.ERROR}
    assert SECRET not in "".join(run.to_json() for run in exporter.get_finished_spans())


async def test_a_snooze_is_no_error(app: App) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        if ctx.previous_attempt_id is None:
            raise Snooze(0.01)

    job = work.submit()
    async with working(app):
        await ended(job)
    runs = spans(SpanKind.CONSUMER)
    assert len(runs) == 2
    assert {run.status.status_code for run in runs} == {StatusCode.UNSET}


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_handler_submits_belongs_to_its_attempt(app: App, is_async: bool) -> None:
    @app.task
    async def last() -> None: ...

    if is_async:

        @app.task
        async def first() -> None:
            await last.aio.submit()
    else:

        @app.task
        def first() -> None:
            last.submit()

    first.submit()
    await drain(app)
    [inner] = [s for s in spans(SpanKind.PRODUCER) if attributes(s)["fencepost.job.type"] == "last"]
    [outer] = [
        s for s in spans(SpanKind.CONSUMER) if attributes(s)["fencepost.job.type"] == "first"
    ]
    assert inner.parent is not None
    assert inner.parent.span_id == id_of(outer)


async def test_handlers_of_one_task_do_not_inherit_from_each_other(app: App) -> None:
    """Short handlers share a task of the loop; their spans must not nest."""

    @app.task
    async def work(x: int) -> None: ...

    for number in range(20):
        work.submit(number)
    await drain(app, concurrency=2)
    runs = spans(SpanKind.CONSUMER)
    assert len(runs) == 20
    assert all(run.parent is None for run in runs)


async def test_a_child_process_is_a_span_of_its_worker(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", tracing=True) as app:
        good = app.task(isolation="process")(isolated.pid_of).submit(1)
        bad = app.task(isolation="process")(isolated.fail).submit("permanent")
        await drain(app)
        assert (good.refresh().state, bad.refresh().state) == ("completed", "failed")
    sent = {attributes(span)["messaging.message.id"]: span for span in spans(SpanKind.PRODUCER)}
    runs = {attributes(span)["messaging.message.id"]: span for span in spans(SpanKind.CONSUMER)}
    assert linked(runs[good.id]) == [id_of(sent[good.id])]
    assert runs[good.id].status.status_code is StatusCode.UNSET
    assert runs[bad.id].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_handler_spawns_belongs_to_its_attempt(app: App, is_async: bool) -> None:
    @app.task(queue="pages")
    async def page(number: int) -> None: ...

    if is_async:

        @app.task
        async def book(ctx: Context) -> None:
            await ctx.aio.spawn(*(page.prepare(number) for number in range(3)))
    else:

        @app.task
        def book(ctx: Context) -> None:
            ctx.spawn(*(page.prepare(number) for number in range(3)))

    book.submit()
    await drain(app)
    [spawned] = [span for span in spans(SpanKind.PRODUCER) if span.name == "submit pages"]
    [parent] = [span for span in spans(SpanKind.CONSUMER) if span.name == "process default"]
    pages = [span for span in spans(SpanKind.CONSUMER) if span.name == "process pages"]
    assert spawned.parent is not None
    assert spawned.parent.span_id == id_of(parent)
    assert attributes(spawned)["messaging.batch.message_count"] == 3
    assert [linked(page) for page in pages] == [[id_of(spawned)]] * 3


async def test_what_a_child_process_spawns_belongs_to_its_attempt(tmp_path: Path) -> None:
    """The span is the worker's, in another process: its context goes along with the request."""
    with App(f"sqlite:///{tmp_path}/jobs.db", tracing=True) as app:
        app.task(name="spawned")(isolated.nothing)
        parent = app.task(isolation="process")(isolated.spawn_one).submit()
        await drain(app)
        assert parent.refresh().state == "completed"
    runs = {attributes(span)["fencepost.job.type"]: span for span in spans(SpanKind.CONSUMER)}
    assert len(runs) == 2
    spawned = runs.pop("spawned")
    [attempt] = runs.values()
    assert linked(spawned) == [id_of(attempt)]


async def test_a_tick_of_a_cron_begins_a_trace_of_the_worker_that_fires_it(app: App) -> None:
    """Also while a span of something else is current: nobody but the clock asked for it."""

    @app.cron("0 9 * * *")
    @app.task(queue="reports")
    async def report() -> None: ...

    session = app.session
    ticker = Ticker(app.store, session.crons, session.counters, session.tracing)
    await ticker.step()
    seen = app.store.run(app.store.crons.list())
    [cron], [row] = session.crons.values(), seen.crons
    assert row.next_tick is not None
    fire = fire_of(cron, row.next_tick, due(cron, next_tick=row.next_tick, now=row.next_tick))
    with trace.get_tracer("test").start_as_current_span("something else"):
        for _ in range(3):  # three workers reach the tick, and one is the first
            await ticker._fire([fire], seen)
    await drain(app)
    [tick], [run] = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert (tick.name, run.name) == ("tick report", "process reports")
    assert tick.parent is None
    assert attributes(tick)["fencepost.cron"] == "report"
    assert linked(run) == [id_of(tick)]


async def test_the_jobs_of_an_event_carry_the_senders_context(app: App) -> None:
    @app.event("user.*").on
    async def greet(name: str) -> None: ...

    with trace.get_tracer("test").start_as_current_span("request") as request:
        app.event("user.created").send(name="x")
    await drain(app)
    [run] = spans(SpanKind.CONSUMER)
    assert linked(run) == [request.get_span_context().span_id]


async def test_an_edit_keeps_the_context_and_nobody_can_forge_one(app: App) -> None:
    @app.task
    async def work() -> None: ...

    job = work.submit()
    app.jobs.edit(job.id, tags={"a": "b"})
    tags = job.refresh().tags
    assert tags["a"] == "b"
    assert tags["fencepost.traceparent"].startswith("00-")
    with pytest.raises(Exception, match="is reserved"):
        work.using(tags={"fencepost.traceparent": "x"}).submit()


def test_a_refused_submission_is_an_error(app: App) -> None:
    @app.task
    async def work() -> None: ...

    work.submit_idempotent("k")
    with pytest.raises(Exception, match="k"):
        work.submit_idempotent("k")
    _, refused = spans(SpanKind.PRODUCER)
    assert refused.status.status_code is StatusCode.ERROR


# Off.


async def test_nothing_is_traced_unless_asked() -> None:
    with App("memory://") as app:

        @app.task
        async def work() -> None: ...

        job = work.submit()
        await drain(app)
        assert job.refresh().tags == {}
    assert exporter.get_finished_spans() == ()


def test_nothing_is_imported_unless_asked() -> None:
    code = (
        "import sys; from fencepost import App; import fencepost.worker; app = App('memory://'); "
        "app.worker(); print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("1", True), ("true", True), ("parent", True), ("link", True), ("0", False), ("", False)],
)
def test_the_environment_can_ask(text: str, is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TRACING", text)
    with App("memory://") as app:
        assert (app.session.tracing is not None) is is_on
    with App("memory://", tracing=False) as app:
        assert app.session.tracing is None


def test_a_wrong_word_and_a_missing_library_are_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match="'link' or 'parent'"):
        App("memory://", tracing="maybe")  # type: ignore[arg-type]  # that is the point
    monkeypatch.setitem(sys.modules, "fencepost.observe.tracing", None)
    with pytest.raises(ConfigurationError, match=r"fencepost\[otel\]"):
        App("memory://", tracing=True)
