"""A client has the names of an app, and what they do is done on the server."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.client.conftest import declare
from tests.http.serving import Served, serving

from fencepost import (
    App,
    BatchJob,
    Client,
    ConfigurationError,
    DuplicateJobError,
    InvalidJobError,
    InvalidPayloadError,
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    PayloadTooLargeError,
    Priority,
    Retry,
    StateConflictError,
    WaitTimeoutError,
)
from fencepost.client import JobHandle
from fencepost.core.job.job import Body
from fencepost.core.limits.rates import Rate
from fencepost.errors import (
    CronNotFoundError,
    DependencyCycleError,
    FlowNotFoundError,
    ReplayNotFoundError,
)

LARGE = 2**77 + 1


@pytest.mark.usefixtures("working")
def test_a_job_is_submitted_run_and_waited_for(client: Client) -> None:
    job = client.task("add").submit(a=1, b=LARGE)
    assert job.result(timeout=20) == LARGE + 1
    assert job.state == "completed"
    assert job.refresh().payload_body == Body(b'{"a":1,"b":%d}' % LARGE)
    assert [attempt.outcome for attempt in job.attempts()] == ["succeeded"]
    assert [change.state for change in job.history()][-1] == "completed"
    assert job.why()[0].code == "completed"


@dataclass
class Line:
    number: int


def test_a_job_of_a_batch_handler_is_submitted_by_the_fields_of_its_payload(
    app: App, client: Client
) -> None:
    @app.task(batch=5)
    async def double(jobs: list[BatchJob[Line]]) -> list[int]:
        return [job.payload.number * 2 for job in jobs]

    jobs = [client.task("double").submit(number=number) for number in (1, 2)]
    with pytest.raises(InvalidPayloadError, match="Expected `int`"):
        client.task("double").submit(number="one")
    app.worker().run(until_idle=True)
    assert [job.result(timeout=20) for job in jobs] == [2, 4]


@pytest.mark.usefixtures("working")
async def test_a_job_is_awaited(client: Client) -> None:
    async with client as aio:
        assert await aio.task("add").wait(a=2, b=LARGE, timeout=20) == LARGE + 2
        assert await (await aio.submit("add", {"a": 1, "b": 1})) == 2


@pytest.mark.usefixtures("working")
def test_bytes_go_and_come_as_they_are(client: Client) -> None:
    data = bytes(range(256))
    assert client.task("turn").wait(data, timeout=20) == data[::-1]
    assert client.submit("turn", data).result(20) == data[::-1]


@pytest.mark.usefixtures("working")
def test_a_failure_is_told_as_an_app_tells_it(client: Client) -> None:
    job = client.task("fail").submit(code="broken")
    with pytest.raises(JobFailedError, match="it cannot be done") as raised:
        job.result(timeout=20)
    assert raised.value.failure_code == "broken"
    assert raised.value.category == "permanent"


def test_a_wait_ends_when_its_time_is_up(client: Client) -> None:
    job = client.task("add").submit(a=1, b=2)
    with pytest.raises(WaitTimeoutError) as raised:
        job.result(timeout=0.05)
    assert raised.value.state == "scheduled"


def test_options_travel(client: Client, app: App) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    task = client.task("add", queue="mail", priority="high", tags={"tenant": "7"})
    job = task.using(
        tags={"kind": "x"},
        run_at=when,
        timeout=timedelta(seconds=90),
        lifetime="2h",
        retry=Retry(max_attempts=7, backoff="linear", jitter="full"),
        correlation_id="c-1",
        concurrency_key="k",
    ).submit(a=1, b=2)
    seen = app.jobs.get(job.id).refresh()
    assert (seen.queue, seen.priority, seen.run_at) == ("mail", Priority.HIGH, when)
    assert seen.tags == {"tenant": "7", "kind": "x"}
    assert (seen.correlation_id, seen.concurrency_key) == ("c-1", "k")
    assert (seen.policy.timeout, seen.policy.lifetime, seen.policy.max_attempts) == (90, 7200, 7)
    assert seen.policy.backoff.strategy == "linear"
    assert seen.policy.backoff.jitter == 1.0
    assert job.refresh() == seen
    later = task.using(run_at=when).using(delay="10s").submit(a=1, b=2)
    assert later.state == "delayed"
    waiting = task.using(after=job).submit(a=1, b=2)
    assert waiting.state == "pending"


def test_a_submission_without_options_is_as_the_server_s_app_declares_it(app: App) -> None:
    other = App("memory://")

    @other.task(queue="slow", priority="low", retry=Retry.none())
    def work() -> None: ...

    with serving(other) as server, Client(server.url) as client:
        job = client.task("work").submit().refresh()
    assert (job.queue, job.priority, job.max_attempts) == ("slow", Priority.LOW, 1)


def test_a_key_returns_or_refuses(client: Client) -> None:
    task = client.task("add")
    first = task.using(key="k").submit(a=1, b=2)
    again = task.using(key="k").submit(a=1, b=2)
    assert (again.id, again.duplicate, first.duplicate) == (first.id, True, False)
    with pytest.raises(DuplicateJobError) as raised:
        task.using(key="k", on_duplicate="reject").submit(a=1, b=2)
    assert raised.value.existing == first
    assert raised.value.existing_id == first.id
    assert (raised.value.type, raised.value.key) == ("add", "k")


def test_a_bulk_is_stored_whole_or_not_at_all(client: Client, app: App) -> None:
    jobs = client.task("add").submit_many([{"a": n, "b": n} for n in range(50)])
    assert [job.refresh().payload_body.data for job in jobs[:2]] == [
        b'{"a":0,"b":0}',
        b'{"a":1,"b":1}',
    ]
    task = client.task("add")
    with pytest.raises(InvalidPayloadError):
        client.submit_many([task.prepare(a=1, b=1), task.prepare(a="x", b=1)])
    task.using(key="k").submit(a=1, b=1)
    reject = task.using(key="k", on_duplicate="reject")
    with pytest.raises(DuplicateJobError) as raised:
        client.submit_many([task.prepare(a=1, b=1), reject.prepare(a=2, b=2)])
    assert isinstance(raised.value.existing, JobHandle)
    assert client.jobs.count(type="add") == app.jobs.count(type="add") == 51
    assert client.submit_many([]) == []
    with pytest.raises(InvalidJobError, match="split"):
        client.submit_many([task.prepare(a=1, b=1)] * 10_001)
    with pytest.raises(InvalidJobError, match="prepare"):
        client.submit_many([{"type": "add"}])  # type: ignore[list-item]  # what users try


def test_jobs_are_found_page_by_page_and_steered(client: Client) -> None:
    jobs = [
        client.submit("add", {"a": n, "b": n}, tags={"of:what": "a:b"}, queue="mail")
        for n in range(3)
    ]
    page = client.jobs.find(tags={"of:what": "a:b"}, state=["scheduled", "running"], limit=2)
    rest = client.jobs.find(tags={"of:what": "a:b"}, limit=2, after=page.next)
    assert [job.id for job in (*page, *rest)] == [job.id for job in reversed(jobs)]
    assert (len(page), rest.next) == (2, None)
    assert [job.id for job in client.jobs.find(id_prefix=jobs[0].id[:14])] == [jobs[0].id]
    hour = timedelta(hours=1)
    assert len(client.jobs.find(created_after=datetime.now(UTC) - hour, queue="mail")) == 3
    assert not client.jobs.find(created_before=datetime.now(UTC) - hour).jobs
    assert client.jobs.count(state="ready", queue="mail") == 3
    oldest = client.jobs.find(queue="mail", order="oldest", where="payload.a>0")
    assert ([job.id for job in oldest], oldest.looked) == ([job.id for job in jobs[1:]], 3)
    assert client.jobs.count(tags={"of:what": "a:b"}, priority=["normal", "high"]) == 3
    bounded = client.jobs.bounded_count(where=["payload.a<=1", "payload.b!=0"])
    assert (bounded.count, bounded.is_exact, bounded.unreadable) == (1, True, 0)
    assert not client.jobs.find(error="no such").jobs
    changed = client.jobs.edit_all({"priority": "bulk"}, where="payload.a=2", queue="mail")
    assert (changed.count, changed.refused) == (1, {})
    assert [job.id for job in client.jobs.find(priority=4)] == [jobs[2].id]
    assert client.jobs.edit(jobs[0].id, priority="low", tags={"new": "1"}).tags == {"new": "1"}
    assert client.jobs.cancel(jobs[0].id) == 1
    assert client.jobs.cancel(queue="mail") == 2
    with pytest.raises(StateConflictError) as raised:
        jobs[0].cancel()
    assert (raised.value.job_id, raised.value.state) == (jobs[0].id, "cancelled")
    with pytest.raises(JobCancelledError):
        jobs[0].result()
    jobs[0].retry(delay="1h", priority=Priority.CRITICAL)
    assert jobs[0].state == "delayed"
    assert client.jobs.retry(jobs[1].id) == "scheduled"
    assert client.jobs.why(jobs[0].id)[0].code == "delayed"
    assert client.jobs.attempts(jobs[0].id) == []
    assert client.jobs.history(jobs[0].id)[0].state == "pending"


@pytest.mark.usefixtures("working")
def test_dead_letters_are_replayed_and_discarded(client: Client) -> None:
    jobs = client.task("fail", retry=Retry.none()).submit_many([{"code": "a"}, {"code": "b"}])
    for job in jobs:
        with pytest.raises(JobFailedError):
            job.result(20)
    client.types.pause("fail")
    letters = client.dead_letters.list(type="fail")
    assert {letter.job_id for letter in letters} == {job.id for job in jobs}
    fresh = client.dead_letters.replay(jobs[0].id)
    assert fresh.refresh().replay_of == jobs[0].id
    client.dead_letters.discard(jobs[1].id)
    assert len(client.dead_letters.list()) == 0
    with pytest.raises(JobNotFoundError):
        client.dead_letters.replay(client.submit("add", {"a": 1, "b": 1}).id)
    with pytest.raises(JobNotFoundError):
        client.dead_letters.discard("nope")
    assert client.dead_letters.replay_all(type="add", limit=10) == 0


@pytest.mark.usefixtures("working")
def test_flows_are_submitted_waited_for_and_steered(client: Client) -> None:
    task = client.task("add")
    nodes = {
        "then": task.using(after=["first", "second"]).prepare(a=5, b=6),
        "first": task.prepare(a=1, b=2),
        "second": task.prepare(a=3, b=LARGE),
    }
    flow = client.flow(nodes).submit()
    assert flow.results(timeout=20) == {"first": 3, "second": LARGE + 3, "then": 11}
    assert set(flow.wait().values()) == set(flow.states().values()) == {"completed"}
    assert client.flows.get(flow.id) == flow
    (listed,) = client.flows.find(limit=1)
    assert listed.id == flow.id
    assert client.flows.find("failed").flows == []
    assert flow["first"] in list(flow)
    failing = client.flow(
        {
            "no": client.task("fail", retry=Retry.none()).prepare(code="x"),
            "never": task.using(after="no").prepare(a=1, b=2),
        }
    ).submit()
    assert set(failing.wait(20)) == {"no", "never"}
    with pytest.raises(JobFailedError):
        failing.results(20)
    client.types.pause("fail")
    assert failing.retry() == 2
    with pytest.raises(WaitTimeoutError):
        failing.wait(timeout=0.05)
    assert failing.cancel() == 2
    with pytest.raises(DependencyCycleError):
        client.flow(
            {
                "a": task.using(after="b").prepare(a=1, b=2),
                "b": task.using(after="a").prepare(a=1, b=2),
            }
        ).submit()
    with pytest.raises(FlowNotFoundError):
        client.flows.get("nope")


def test_events_are_sent_and_listed(client: Client, app: App) -> None:
    sent = client.event("user.created").send(name="Ada", number=LARGE)
    assert [job.type for job in sent.jobs] == ["greet"]
    again = client.event("user.created").send_idempotent("k", name="Ada")
    with pytest.raises(DuplicateJobError) as caught:
        client.event("user.created").send_idempotent("k", name="Ada")
    assert caught.value.existing_id == again.jobs[0].id
    assert caught.value.existing == again.jobs[0]
    events = client.events.find(name="user.created")
    assert list(events) == list(app.events.find())
    assert events.events[-1].data == {"name": "Ada", "number": LARGE}
    with pytest.raises(InvalidJobError):
        client.event("user.*")


def test_crons_are_listed_run_and_paused(client: Client, app: App) -> None:
    (daily,) = client.crons.list()
    assert (daily.name, daily.type, daily.expression) == ("daily", "add", "0 9 * * *")
    client.crons.pause("daily")
    assert client.crons.list()[0].is_paused
    client.crons.resume("daily")
    assert len(client.crons.next("daily", 3)) == 3
    assert client.crons.run("daily").type == "add"
    client.crons.forget("daily")
    with pytest.raises(CronNotFoundError):
        client.crons.pause("nightly")


@pytest.mark.usefixtures("working")
def test_lanes_are_listed_paused_and_limited(client: Client, app: App) -> None:
    client.task("add").wait(a=1, b=2, timeout=20)
    client.limit(max_running=5)
    client.queues.limit("default", max_running=2)
    client.queues.pause("default")
    client.types.pause("add")
    assert client.queues.list() == app.queues.list()
    assert client.types.list() == app.types.list()
    assert client.queues.list()[0].max_running == 2
    assert client.queues.scale("default") == app.queues.scale("default")
    assert client.stats(window="10m").window == 600.0
    client.types.limit("add", rate="10/30s")
    assert app.types.list()[0].rate == Rate(10, 30.0)
    client.types.limit("add", rate=None)
    assert app.types.list()[0].rate is None
    client.queues.resume("default")
    client.task("add").resume()
    assert not client.types.list()[0].is_paused
    assert [worker.id for worker in client.workers.list()] == [w.id for w in app.workers.list()]


@pytest.mark.parametrize("name", ["..", "a b", "ü?&#%", "-", "a/b", "a/../b", "a/pause"])
def test_any_name_finds_its_way_into_a_path(client: Client, app: App, name: str) -> None:
    client.submit("add", {"a": 1, "b": 2}, queue=name)
    client.queues.pause(name)
    assert [(q.name, q.is_paused) for q in app.queues.list()] == [(name, True)]


def test_an_id_with_a_slash_is_nobody_s(client: Client) -> None:
    """It does not lead to another route of the job that it begins with."""
    job = client.submit("add", {"a": 1, "b": 2})
    for each in ("cancel", "wait", "why"):
        with pytest.raises(JobNotFoundError):
            client.jobs.get(f"{job.id}/{each}")
    with pytest.raises(JobNotFoundError):
        client.jobs.cancel(f"{job.id}/cancel")


def test_what_is_refused_is_refused_as_an_app_does_it(client: Client) -> None:
    node = client.task("add").prepare(a=1, b=2)
    bad: list[tuple[type[Exception], Any]] = [
        (InvalidPayloadError, lambda: client.task("add").submit(a="x", b=1)),
        (InvalidPayloadError, lambda: client.task("add").submit(a=math.nan, b=1)),
        (InvalidPayloadError, lambda: client.task("add").submit(b"x", a=1)),
        (InvalidPayloadError, lambda: client.task("add").submit(1, 2)),  # type: ignore[arg-type]
        (InvalidJobError, lambda: client.task("").submit()),
        (InvalidJobError, lambda: client.submit("add", delay=1, run_at=datetime.now(UTC))),
        (InvalidJobError, lambda: client.task("add", after=7).submit()),  # type: ignore[arg-type]
        (InvalidJobError, lambda: client.task("add", delay="soon").submit()),
        (ConfigurationError, lambda: client.task("add", id="x")),  # type: ignore[call-arg]
        (ConfigurationError, lambda: client.task("add", run_at=datetime.now())),  # noqa: DTZ005
        (ConfigurationError, lambda: client.task("add", retry=Retry(backoff=lambda *_: 1))),
        (ConfigurationError, lambda: client.jobs.find(after="nonsense")),
        (ConfigurationError, lambda: client.jobs.find(state="nonsense")),
        (ConfigurationError, lambda: client.flow({"a": node}).submit(conn=object())),
        (ConfigurationError, lambda: client.jobs.cancel()),
        (JobNotFoundError, lambda: client.jobs.get("../queues")),
        (JobNotFoundError, lambda: client.jobs.get("00000000-0000-4000-8000-000000000000")),
    ]
    for kind, call in bad:
        with pytest.raises(kind):
            call()


def test_a_payload_that_is_too_large_says_how_large(client: Client) -> None:
    with pytest.raises(PayloadTooLargeError) as raised:
        client.submit("turn", b"x" * 1_100_000)
    assert raised.value.size >= 1_000_000
    assert raised.value.limit


def test_a_client_is_shared_by_threads(client: Client, app: App) -> None:
    threads = [
        threading.Thread(target=client.task("add").submit, kwargs={"a": n, "b": n})
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert app.jobs.count(type="add") == 20


def test_a_closed_client_says_so(server: Served) -> None:
    with Client(server.url) as client:
        client.queues.list()
    with pytest.raises(ConfigurationError, match="closed"):
        client.queues.list()


@pytest.mark.parametrize(
    "url", ["", "localhost", "ftp://x", "http://", "http://u:secret@x", "http://x?a=b", None, 7]
)
def test_a_url_that_is_none_is_refused_without_its_password(url: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Client(url)
    assert "secret" not in str(raised.value)


def test_a_token_that_is_none_is_refused_and_never_shown() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Client("http://x", "sécret\n")
    assert "cret\n" not in str(raised.value)
    client = Client("http://x/jobs/", "fp_very_secret")
    assert repr(client) == "<Client http://x/jobs>"
    assert "secret" not in repr(client.aio) + str(vars(client))


@pytest.mark.parametrize("retries", [-1, 101, True, 1.5, "3"])
def test_retries_are_a_small_number(retries: Any) -> None:
    with pytest.raises(ConfigurationError):
        Client("http://x", retries=retries)


def test_it_all_works_on_postgresql(postgres_url: str) -> None:
    with App(postgres_url) as app:
        app.migrate()
        with serving(declare(app)) as server, Client(server.url) as client:
            task = client.task("add")
            job = task.using(key="k").submit(a=1, b=LARGE)
            assert task.using(key="k").submit(a=1, b=LARGE).duplicate
            flow = client.flow({"x": task.prepare(a=1, b=2)}).submit()
            app.worker().run(until_idle=True)
            assert job.result(20) == LARGE + 1
            assert flow.results(20) == {"x": 3}
            assert client.queues.list() == app.queues.list()


def test_a_waiting_job_is_edited_and_hastened(client: Client, app: App) -> None:
    """C45, C46: as with an app."""
    job = client.task("other").using(delay="1h", correlation_id="c").submit(a=1)
    client.jobs.edit(job.id, payload={"a": 2}, correlation_id="d", priority="high")
    stored = app.jobs.get(job.id).refresh()
    assert (stored.payload_body, stored.correlation_id) == (Body(b'{"a":2}'), "d")
    assert stored.priority is Priority.HIGH
    client.jobs.edit(job.id, payload=b"\x00", correlation_id="")
    assert app.jobs.get(job.id).refresh().payload_body.data == b"\x00"
    assert client.jobs.retry(job.id, delay="10m") == "delayed"
    with pytest.raises(InvalidJobError, match="lifetime"):
        client.jobs.retry(job.id, delay="8d")
    job.retry()
    with pytest.raises(StateConflictError, match="queued already"):
        job.retry()
    with pytest.raises(StateConflictError, match="cannot be changed"):
        client.jobs.edit(job.id, queue="elsewhere")
    with pytest.raises(TypeError):
        client.jobs.edit(job.id, attempt=1)  # type: ignore[call-arg]  # that is the point


@pytest.mark.usefixtures("working")
def test_replays_are_started_seen_and_steered(client: Client, app: App) -> None:
    for job in client.task("fail", retry=Retry.none()).submit_many([{"code": "a"}, {"code": "b"}]):
        with pytest.raises(JobFailedError):
            job.result(20)
    since = datetime(2000, 1, 1, tzinfo=UTC)
    started = client.replays.start(type="fail", since=since, rate=0.01, patch={"n": LARGE})
    assert (started.state, started.total, started.since) == ("running", 2, since)
    assert (started.patched, client.replays.get(started.id).id) == (["n"], started.id)
    assert client.replays.hold(started.id).state == "held"
    assert client.replays.resume(started.id).state == "running"
    assert client.replays.stop(started.id).state == "stopped"
    assert [each.id for each in client.replays.list()] == [started.id]
    assert app.replays.get(started.id).started_at == started.started_at
    for bad in ("x", "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"):
        with pytest.raises(ReplayNotFoundError):
            client.replays.stop(bad)
    with pytest.raises(StateConflictError):
        client.replays.resume(started.id)
    with pytest.raises(ConfigurationError):
        client.replays.start(rate=0)
    with pytest.raises(ConfigurationError):
        client.replays.start(speed=1)  # type: ignore[call-arg]  # refused before it is sent
