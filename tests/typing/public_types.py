"""What editors are told about tasks, checked by mypy and by basedpyright; never run.

``assert_type`` states a type; both checkers must agree with every line.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type

from fencepost import (
    App,
    BatchJob,
    Client,
    Context,
    EventHandle,
    FlowHandle,
    Graph,
    JobHandle,
    NewJob,
    Priority,
    Retry,
    SentEvent,
    State,
    TaskHandle,
    chain,
    fan_in,
    fan_out,
)
from fencepost.app import (
    AsyncFlowHandle,
    AsyncJobHandle,
    AsyncTaskHandle,
    BoundedCount,
    Page,
    SentHandle,
)
from fencepost.core.events import EventInfo
from fencepost.core.job.job import Attempt, Job, Progress
from fencepost.core.job.why import Reason
from fencepost.store.interface.records.crons import CronView
from fencepost.wire.jobs import JobSummary, Submission
from fencepost.wire.overview import WireCronView as ServedCron

app = App("memory://")


@dataclass
class Order:
    id: int


# The decorator, bare and with settings.


@app.task
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task(queue="mail", priority=Priority.HIGH, retry=Retry(max_attempts=5), timeout=60)
def send(to: str, *, subject: str) -> Order:
    return Order(1)


@app.task
async def fetch(url: str) -> bytes:
    return b""


@app.task(isolation="process")
async def fetch_apart(url: str) -> Order:
    return Order(1)


@app.task
def with_context(ctx: Context, a: int) -> str:
    return str(a)


@app.task(name="other")
async def with_context_async(ctx: Context, a: int) -> str:
    return str(a)


@app.task
def with_context_only(ctx: Context) -> None: ...


# A batch handler takes a list of jobs; a caller submits the payload of one.


@app.task(batch=100, batch_wait="50ms")
def store_orders(jobs: list[BatchJob[Order]]) -> list[int]:
    assert_type(jobs[0].payload, Order)
    assert_type(jobs[0].ctx, Context)
    return [job.payload.id for job in jobs]


@app.event("order.*").on(batch=10)
async def index_orders(jobs: list[BatchJob[Order]]) -> None: ...


assert_type(store_orders.submit(Order(1)), JobHandle[Any])
assert_type(index_orders.submit(Order(1)), JobHandle[Any])


# Handlers of events are tasks.


@app.event("user.created").on
def welcome(user_id: int) -> str:
    return ""


@app.event("user.*").on(queue="search", retry=Retry(max_attempts=5))
async def index(ctx: Context, user_id: int) -> bytes:
    assert_type(ctx.event, EventInfo | None)
    return b""


@app.event("user.*").on
def untyped_handler(a, b=None):  # type: ignore[no-untyped-def]
    return a


assert_type(app.event("user.created"), EventHandle)
assert_type(welcome.submit(user_id=1), JobHandle[str])
assert_type(index.submit(1), JobHandle[bytes])
assert_type(app.event("user.created").send(user_id=1), SentHandle[JobHandle[Any]])
assert_type(app.event("user.created").send(user_id=1).jobs, list[JobHandle[Any]])
assert_type(app.event("a").using(conn=object()).send_idempotent("k"), SentHandle[JobHandle[Any]])
assert_type(app.events.find().events, list[SentEvent])
untyped_handler.submit(1, b="anything").result()

# Submitting is typed by the function's own parameters, and gives a handle on its result.

assert_type(add.submit(1, 2), JobHandle[int])
assert_type(add.submit(1, b=2), JobHandle[int])
assert_type(add.submit(1), JobHandle[int])
assert_type(add.submit(1).result(), int)
assert_type(add.submit(1).result(timeout="10s"), int)
assert_type(send.submit("a@b.c", subject="hi"), JobHandle[Order])
assert_type(add.submit_idempotent("key", 1, b=2), JobHandle[int])
assert_type(add.prepare(1, 2), NewJob)
assert_type(add.submit_many([(1, 2), (3, 4)]), list[JobHandle[int]])
assert_type(add.wait(1, timeout=10), int)
assert_type(add.wait_idempotent("key", 1, timeout=10), int)

# A direct call is that of the function, with its name.


def direct(ctx: Context) -> None:
    assert_type(add(1, b=2), int)
    assert_type(send("a@b.c", subject="hi"), Order)
    assert_type(with_context(ctx, 1), str)
    assert_type(cron_over_task(1), str)
    assert_type(welcome(user_id=1), str)
    assert_type(add.__name__, str)
    assert_type(add.__qualname__, str)
    untyped(1, "anything")
    add.using(priority="high")


async def direct_async(ctx: Context) -> None:
    assert_type(await fetch("u"), bytes)
    assert_type(await with_context_async(ctx, a=1), str)


# ``async def`` gives what it is awaited to.

assert_type(fetch.submit("u"), JobHandle[bytes])
assert_type(fetch_apart.submit("u"), JobHandle[Order])

# The context is not the caller's to give.

assert_type(with_context.submit(1), JobHandle[str])
assert_type(with_context_async.submit(a=1), JobHandle[str])
assert_type(with_context_only.submit(), JobHandle[None])

# Options change the job, not the types.

assert_type(add.using(delay="1h", priority=Priority.LOW).submit(1), JobHandle[int])
assert_type(
    add.using(key="k", on_duplicate="reject").using(tags={"a": "b"}).submit(1).result(), int
)
assert_type(add.using(conn=object()).submit(1), JobHandle[int])


# The async face.


async def asynchronous() -> None:
    assert_type(await add.aio.submit(1, b=2), AsyncJobHandle[int])
    assert_type(await (await add.aio.submit(1)).result(10), int)
    assert_type(await fetch.aio.submit("u"), AsyncJobHandle[bytes])
    assert_type(await with_context.aio.submit(1), AsyncJobHandle[str])
    assert_type(await add.aio.submit_idempotent("key", 1), AsyncJobHandle[int])
    assert_type(await add.aio.wait(1, timeout=5), int)
    assert_type(await add.aio.wait_idempotent("key", 1, timeout=5), int)
    assert_type(await add.aio.submit_many([1, 2]), list[AsyncJobHandle[int]])
    assert_type(await add.aio.using(delay=1).submit(1), AsyncJobHandle[int])
    assert_type(await add.aio.using(conn=object()).submit(1), AsyncJobHandle[int])
    assert_type(await app.aio.submit_many([add.prepare(1)]), list[AsyncJobHandle[Any]])
    assert_type(await app.event("a").aio.send(x=1), SentHandle[AsyncJobHandle[Any]])
    assert_type((await app.event("a").aio.send_idempotent("k")).jobs, list[AsyncJobHandle[Any]])
    assert_type((await app.aio.events.find(name="a")).next, str | None)
    assert_type(await app.aio.jobs.count(state="failed"), int)
    assert_type(await app.aio.jobs.bounded_count(state="failed"), BoundedCount)
    assert_type(await (await app.aio.jobs.get("id")).refresh(), Job)


# Handles.

job = add.submit(1)
assert_type(job.aio, AsyncJobHandle[int])
assert_type(job.id, str)
assert_type(job.state, State)
assert_type(job.duplicate, bool)
assert_type(job.differs, tuple[str, ...] | None)
assert_type(job.progress, Progress | None)
assert_type(job.to_dict(), dict[str, Any])
assert_type(job.refresh().raw_result, bytes | None)
assert_type(job.refresh(), Job)
assert_type(job.why(), list[Reason])
assert_type(job.attempts(), list[Attempt])
assert_type(app.jobs.get("id"), JobHandle[Any])
assert_type(app.submit_many([add.prepare(1), send.prepare("a", subject="b")]), list[JobHandle[Any]])
assert_type(add.type, str)


def takes_handles(
    sync: TaskHandle[[int], str], asynchronous: AsyncTaskHandle[[int], str]
) -> tuple[JobHandle[str], AsyncTaskHandle[[int], str]]:
    return sync.submit(1), sync.aio


takes_handles(with_context, with_context.aio)


# Handlers without annotations stay usable, whatever their first parameter is.


@app.task
def untyped(a, b=None):  # type: ignore[no-untyped-def]
    return a


@app.task(queue="mail")
async def untyped_async(a, *rest, **more):  # type: ignore[no-untyped-def]
    return a


@app.task
def untyped_alone():  # type: ignore[no-untyped-def]
    return 1


@app.task
def half_typed(a, b: int = 0) -> str:  # type: ignore[no-untyped-def]
    return ""


untyped.submit(1, b="anything").result()
untyped.submit("x", [1, 2])
untyped_async.submit(1, 2, key=3)
untyped_alone.submit()
half_typed.submit(1, b=2).result()


@app.task
def anything(a: Any, b: int) -> str:
    return ""


anything.submit(object(), b=2).result()


# Crons, over a task and over a function.


@app.cron("0 9 * * 1-5", tz="Europe/Berlin", missed="catch_up", catch_up=3, arguments={"a": 1})
@app.task(queue="reports")
def cron_over_task(a: int) -> str:
    return str(a)


@app.cron("@hourly", name="two")
@app.cron("@daily", name="one")
async def cron_over_function(ctx: Context, a: int = 1) -> int:
    return a


assert_type(cron_over_task.submit(1), JobHandle[str])
assert_type(cron_over_function.submit(2), JobHandle[int])
assert_type(app.crons.next("one"), list[datetime])
assert_type(app.crons.list(), list[CronView])
assert_type(app.crons.run("one"), JobHandle[Any])


# Flows.


def flows() -> None:
    graph = chain(add.prepare(1), fan_out(send.prepare("a", subject="b"), [add.prepare(2)]))
    assert_type(fan_in([graph, ("last", add.prepare(3))], add.prepare(4)), Graph)
    handle = app.flow({"a": add.prepare(1), "b": add.using(after="a").prepare(2)}).submit()
    assert_type(handle, FlowHandle)
    assert_type(handle["a"], JobHandle[Any])
    assert_type(handle.states(), dict[str, State])
    assert_type(handle.cancel(), int)
    add.using(after=[handle["a"], "id"], accept_failures=True).submit(1)
    add.using(after_any=handle["a"].aio).submit(1)


async def flows_async() -> None:
    handle = await app.aio.flow(chain(add.prepare(1))).submit()
    assert_type(handle, AsyncFlowHandle)
    assert_type(handle["a"], AsyncJobHandle[Any])
    assert_type(await app.aio.flows.get(handle.id), AsyncFlowHandle)


def spawns(ctx: Context) -> None:
    assert_type(ctx.spawn(add.prepare(1), chain(add.prepare(2))), list[str])
    assert_type(ctx.dependency_results["a"], Any)


# A client has the handles of an app; what it lists is as a server shows it.

assert_type(app.jobs.find(), Page[Job])
assert_type(app.jobs.edit("id", priority="high"), Job)


def client_types(client: Client) -> None:
    assert_type(client.task("add").submit(a=1), JobHandle[Any])
    assert_type(client.task("add").using(delay="1h").prepare(a=1), Submission)
    assert_type(client.submit("add", {"a": 1}), JobHandle[Any])
    assert_type(client.jobs.get("id").refresh(), Job)
    assert_type(client.jobs.find(), Page[JobSummary])
    assert_type(client.jobs.edit("id", priority="high"), JobSummary)
    assert_type(client.event("user.created").send(user_id=1), SentHandle[JobHandle[Any]])
    assert_type(client.flow({"a": client.task("add").prepare(a=1)}).submit(), FlowHandle)
    assert_type(client.crons.list(), list[ServedCron])


async def client_types_async(client: Client) -> None:
    assert_type(await client.aio.task("add").submit(a=1), AsyncJobHandle[Any])
    assert_type(await client.aio.jobs.find(), Page[JobSummary])
    assert_type((await client.aio.event("a").send()).jobs, list[AsyncJobHandle[Any]])
    assert_type(await client.aio.flows.get("id"), AsyncFlowHandle)
