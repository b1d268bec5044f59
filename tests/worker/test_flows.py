"""Flows through a worker: results for those that wait, and jobs that are spawned under a lease."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.worker import flow_handlers
from tests.worker.flaky import FlakyStore, Times, nothing, only
from tests.worker.flaky import app as app
from tests.worker.flaky import store as store
from tests.worker.support import LONG, drain, ended, eventually, working, working_in_thread

from fencepost import (
    App,
    Context,
    Retry,
    StaleLeaseError,
    State,
    UnknownOutcomeError,
    chain,
    fan_in,
    fan_out,
)
from fencepost.errors import UnknownDependencyError
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.store.plan import Operation


@dataclass
class Point:
    x: int
    y: int


class Tasks:
    """Handlers that return, gather and spawn."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.seen: list[Any] = []

        @app.task
        def point(x: int) -> Point:
            return Point(x, -x)

        @app.task
        async def see(ctx: Context) -> None:
            self.seen.append(ctx.dependency_results)

        @app.task
        def plain() -> str:
            return "plain"

        @app.task(retry=Retry.none())
        def fail() -> None:
            raise ValueError("no")

        self.point, self.see, self.plain, self.fail = point, see, plain, fail


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


# What those returned that a job waited for.


async def test_a_handler_reads_what_those_returned_that_it_waited_for(tasks: Tasks) -> None:
    """S1-60, S1-64: by name, in order, and as the annotation of their task says."""
    handle = tasks.app.flow(
        {
            "b": tasks.point.prepare(2),
            "a": tasks.point.prepare(1),
            "see": tasks.see.using(after=["b", "a"]).prepare(),
        }
    ).submit()
    await drain(tasks.app)
    assert list(tasks.seen[0].items()) == [("b", Point(2, -2)), ("a", Point(1, -1))]
    with pytest.raises(TypeError):
        tasks.seen[0]["a"] = None
    assert handle.states()["see"] is State.COMPLETED


async def test_jobs_outside_of_flows_are_called_by_their_ids(tasks: Tasks) -> None:
    first = tasks.plain.submit()
    tasks.see.using(after=first).submit()
    await drain(tasks.app)
    assert dict(tasks.seen[0]) == {first.id: "plain"}


async def test_only_results_of_completed_jobs_are_there(tasks: Tasks) -> None:
    """C28."""
    graph = fan_in(
        [tasks.fail.prepare(), tasks.plain.prepare()], tasks.see.prepare(), accept_failures=True
    )
    tasks.app.flow(graph).submit()
    tasks.see.submit()
    await drain(tasks.app)
    assert sorted(map(dict, tasks.seen), key=len) == [{}, {"plain": "plain"}]


async def test_a_type_that_the_worker_does_not_know_gives_plain_json(
    tasks: Tasks, store: FlakyStore
) -> None:
    first = tasks.point.submit(3)
    await drain(tasks.app)
    other = App(store.inner.url, store=cast(Store, store))
    seen: list[Any] = []

    @other.task
    def look(ctx: Context) -> None:
        seen.append(dict(ctx.dependency_results))

    look.using(after=first.id).submit()
    await drain(other)
    assert seen == [{first.id: {"x": 3, "y": -3}}]


async def test_results_are_loaded_once_a_claim_and_only_for_those_that_can_ask(
    tasks: Tasks,
) -> None:
    """Few operations: one for all jobs of a claim, none for handlers without a context."""
    counters = tasks.app.session.counters
    tasks.app.flow(fan_out(tasks.plain.prepare(), [tasks.plain.prepare()] * 10)).submit()
    tasks.see.submit()
    await drain(tasks.app)
    assert counters.get("store.operation", operation="dependencies") == 0
    tasks.app.flow(fan_out(tasks.plain.prepare(), [tasks.see.prepare()] * 10)).submit()
    await drain(tasks.app, concurrency=20)
    assert len(tasks.seen) == 11
    assert all(dict(each) == {"plain": "plain"} for each in tasks.seen[1:])
    assert counters.get("store.operation", operation="dependencies") == 1


async def test_a_store_that_is_away_when_results_are_loaded_loses_no_job(
    tasks: Tasks, store: FlakyStore
) -> None:
    tasks.app.flow(chain(tasks.plain.prepare(), tasks.see.prepare())).submit()
    store.is_away = Times(ReaderFacet.dependencies, 3)
    await drain(tasks.app)
    assert [dict(each) for each in tasks.seen] == [{"plain": "plain"}]
    assert store.count(ReaderFacet.dependencies) == len(store.refused) == 3
    assert tasks.app.jobs.find(type="see").jobs[0].attempt == 1


def test_a_worker_on_its_own_loop_loads_results_in_its_own_thread(
    tasks: Tasks, store: FlakyStore
) -> None:
    """And in the awaited way when that fails."""
    store.is_away = Times(ReaderFacet.dependencies, 1)
    handle = tasks.app.flow(chain(tasks.plain.prepare(), tasks.see.prepare())).submit()
    with working_in_thread(tasks.app):
        assert set(handle.wait(LONG).values()) == {State.COMPLETED}
    assert [dict(each) for each in tasks.seen] == [{"plain": "plain"}]


async def test_results_that_cannot_be_loaded_fail_their_own_job_alone(
    tasks: Tasks, store: FlakyStore
) -> None:
    """One broken row must not hold up every slot of a worker for ever."""
    plain = tasks.plain.submit()
    await drain(tasks.app)
    bad, good = (tasks.see.using(after=plain).submit() for _ in range(2))
    ask = store.inner.reader.dependencies

    def dependencies(job_ids: Any, **options: Any) -> Any:
        if bad.id in job_ids:
            raise ValueError("a broken row")
        return ask(job_ids, **options)

    store.inner.reader.dependencies = dependencies  # type: ignore[method-assign]  # for this test
    told: list[str] = []
    tasks.app.on_failure(lambda ctx, failed: told.append(ctx.job_id))
    await drain(tasks.app)
    assert set(told) == {bad.id}
    assert good.refresh().state is State.COMPLETED
    await eventually(lambda: bad.refresh().state in (State.RETRYING, State.DEAD_LETTER))
    failure = bad.refresh().failure
    assert failure is not None
    assert "a broken row" in failure.message


async def test_a_worker_that_stops_while_it_loads_gives_the_job_back(
    tasks: Tasks, store: FlakyStore
) -> None:
    handle = tasks.app.flow(chain(tasks.plain.prepare(), tasks.see.prepare())).submit()
    store.is_away = only(ReaderFacet.dependencies)
    async with working(tasks.app):
        await eventually(lambda: store.refused)
    job = handle["see"].refresh()
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)
    store.is_away = nothing
    await drain(tasks.app)
    assert handle["see"].refresh().state is State.COMPLETED


class LateStore(FlakyStore):
    """Answers a claim that brought nothing only when a settlement has been written since."""

    settled = 0

    async def run_async(self, operation: Operation[Any]) -> Any:
        before = self.settled
        result = await super().run_async(operation)
        if operation.is_a(QueueFacet.settle):
            self.settled += 1
        if operation.is_a(QueueFacet.claim) and not result.jobs and before == 0:
            await eventually(lambda: self.settled > before)
            await asyncio.sleep(0)
        return result


async def test_a_worker_that_works_until_it_is_idle_does_not_leave_what_was_just_let_go() -> None:
    """A claim that was asked before a settlement says nothing of what that has let go."""
    store = LateStore(open_store("memory://"))
    app = App("memory://", store=cast(Store, store))

    @app.task
    def step() -> None: ...

    handle = app.flow(chain(*[step.prepare()] * 3)).submit()
    await drain(app, concurrency=2)
    assert set(handle.states().values()) == {State.COMPLETED}


# Spawning.


class Brood:
    """A handler that spawns, under control of the test."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ids: list[list[str]] = []
        self.errors: list[BaseException] = []
        self.numbers: list[int] = [1, 2]
        self.fails_on: set[int] = set()

        @app.task
        def leaf(number: int) -> int:
            return number

        @app.task
        def brood(ctx: Context) -> None:
            self.ids.append(ctx.spawn(*(leaf.prepare(number) for number in self.numbers)))
            if ctx.attempt in self.fails_on:
                raise ValueError("after the spawn")

        @app.task
        async def brood_awaited(ctx: Context) -> None:
            jobs = [leaf.prepare(number) for number in self.numbers]
            both = await asyncio.gather(ctx.aio.spawn(*jobs), ctx.aio.spawn(*jobs))
            self.ids.extend(both)

        @app.task
        def total(ctx: Context) -> int:
            return sum(value or 0 for value in ctx.dependency_results.values())

        self.leaf, self.brood, self.brood_awaited, self.total = leaf, brood, brood_awaited, total


@pytest.fixture
def brood(app: App) -> Brood:
    return Brood(app)


async def test_a_fan_in_waits_for_what_was_spawned_and_reads_it(brood: Brood) -> None:
    """S1-63, S1-64, C29."""
    handle = brood.app.flow(fan_in([brood.brood.prepare()], brood.total.prepare())).submit()
    await drain(brood.app)
    assert handle.results(0)["total"] == 3
    jobs = brood.app.jobs.find(type="leaf").jobs
    assert {job.id for job in jobs} == set(brood.ids[0])
    assert {job.flow for job in jobs} == {handle.id}


async def test_a_later_attempt_finds_what_an_earlier_one_spawned(brood: Brood) -> None:
    """S1-74: the handler runs again, and what it spawned does not."""
    brood.numbers, brood.fails_on = [1, 2, 1], {1}
    job = brood.brood.submit()
    async with working(brood.app):
        assert (await ended(job)).attempt == 2
    assert brood.ids[0] == brood.ids[1]
    assert len(set(brood.ids[0])) == 3, "two equal jobs are two jobs"
    assert brood.app.jobs.count(type="leaf") == 3


async def test_equal_jobs_spawned_at_once_are_as_many_as_were_asked_for(brood: Brood) -> None:
    brood.brood_awaited.submit()
    await drain(brood.app)
    assert brood.app.jobs.count(type="leaf") == 4
    assert len({job_id for ids in brood.ids for job_id in ids}) == 4


async def test_a_repeat_after_a_lost_reply_makes_no_second_child(
    app: App, store: FlakyStore
) -> None:
    """The outcome of the first call is unknown: it was stored."""
    ids: list[list[str]] = []

    @app.task
    def leaf(number: int) -> None: ...

    @app.task
    def brood(ctx: Context) -> None:
        with pytest.raises(UnknownOutcomeError):
            ctx.spawn(leaf.prepare(1), leaf.prepare(1))
        ids.append(ctx.spawn(leaf.prepare(1), leaf.prepare(1)))
        ids.append(ctx.spawn(leaf.prepare(1)))

    store.loses_reply = Times(QueueFacet.spawn, 1)
    brood.submit()
    await drain(app)
    assert app.jobs.count(type="leaf") == 3
    assert len({*ids[0], *ids[1]}) == 3


async def test_a_spawn_under_a_lost_lease_stores_nothing(app: App) -> None:
    """S3-9: a stale worker cannot write."""
    errors: list[Exception] = []

    @app.task
    def leaf() -> None: ...

    @app.task
    def brood(ctx: Context) -> None:
        app.jobs.cancel(ctx.job_id)
        try:
            ctx.spawn(leaf.prepare())
        except StaleLeaseError as error:
            errors.append(error)

    brood.submit()
    await drain(app)
    assert len(errors) == 1
    assert app.jobs.count(type="leaf") == 0
    assert app.session.counters.get("stale.spawn") == 1


async def test_a_refused_spawn_stores_nothing(app: App) -> None:
    """S1-68."""

    @app.task
    def leaf() -> None: ...

    @app.task
    def brood(ctx: Context) -> None:
        nobody = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"
        with pytest.raises(UnknownDependencyError):
            ctx.spawn(leaf.prepare(), leaf.using(after=nobody).prepare())
        assert ctx.spawn() == []

    job = brood.submit()
    await drain(app)
    assert job.refresh().state is State.COMPLETED
    assert app.jobs.count(type="leaf") == 0


async def test_a_graph_can_be_spawned(brood: Brood) -> None:
    app = brood.app

    @app.task
    def lay(ctx: Context) -> list[str]:
        leaves = [brood.leaf.prepare(number) for number in (4, 5)]
        return ctx.spawn(fan_in(leaves, brood.total.prepare()))

    job = lay.submit()
    await drain(app)
    total = app.jobs.get(job.result(0)[2])
    assert total.result(0) == 9


async def test_a_child_process_spawns_and_reads_results(sqlite_app: App) -> None:
    """S1-63, C29: and finds what it spawned before it failed."""
    ours = sqlite_app.session.tasks
    ours.update(flow_handlers.flow_app.session.tasks)
    graph = fan_in([flow_handlers.brood.prepare(3)], flow_handlers.total.prepare())
    handle = sqlite_app.flow(graph).submit()
    async with working(sqlite_app):
        results = await handle.aio.results(LONG)
    spawned = results["brood"]
    assert {key: results["total"][key] for key in spawned} == dict(
        zip(spawned, range(3), strict=True)
    )
    assert sqlite_app.jobs.count(type="leaf") == 3


async def test_a_coroutine_in_a_child_process_spawns(sqlite_app: App) -> None:
    sqlite_app.session.tasks.update(flow_handlers.flow_app.session.tasks)
    (job,) = sqlite_app.submit_many([flow_handlers.brood_awaited.prepare(2)])
    await drain(sqlite_app)
    assert sqlite_app.jobs.count(type="leaf") == 2
    assert len(job.result(0)) == 2
