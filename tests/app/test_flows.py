"""Flows: submitted whole, looked at, waited for, cancelled and run again as one."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import App, Context, PermanentError, State, chain, fan_in, fan_out
from fencepost.core.bounds import BULK_MAX
from fencepost.errors import (
    DependencyCycleError,
    FlowNotFoundError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    UnknownDependencyError,
    WaitTimeoutError,
)
from fencepost.testing import drain

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"
DONE, FAILED, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED


class Tasks:
    """Handlers that note what ran, and fail as long as they are told to."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ran: list[str] = []
        self.bad: set[str] = set()
        self.spawns: list[str] = []

        @app.task
        def step(name: str) -> str:
            self.ran.append(name)
            if name in self.bad:
                raise PermanentError("no")
            return name

        @app.task
        def brood(ctx: Context) -> None:
            ctx.spawn(*(step.prepare(name) for name in self.spawns))

        self.step = step
        self.brood = brood

    def job(self, name: str, **options: Any) -> Any:
        return self.step.using(**options).prepare(name)


@pytest.fixture
def tasks(app: App) -> Tasks:
    return Tasks(app)


def test_a_named_flow_is_stored_whole_and_runs_in_order(tasks: Tasks) -> None:
    """S1-60, S1-62."""
    flow = tasks.app.flow(
        {
            "load": tasks.job("load", after=["clean", "extract"]),
            "clean": tasks.job("clean", after="extract"),
            "extract": tasks.job("extract"),
        }
    )
    assert flow.nodes == ["extract", "clean", "load"]
    handle = flow.submit()
    assert list(handle.jobs) == flow.nodes
    assert handle.states() == {
        "extract": State.SCHEDULED,
        "clean": State.PENDING,
        "load": State.PENDING,
    }
    drain(tasks.app)
    assert tasks.ran == ["extract", "clean", "load"]
    assert handle.results() == {"extract": "extract", "clean": "clean", "load": "load"}
    assert handle.wait() == dict.fromkeys(flow.nodes, DONE)
    job = handle["load"].refresh()
    assert (job.flow, job.node) == (handle.id, "load")
    assert [each.id for each in handle] == [each.id for each in handle.jobs.values()]
    assert len(handle) == 3


def test_compositions_run_in_order(tasks: Tasks) -> None:
    """S1-62, S1-63, S1-64."""
    job = tasks.job
    handle = tasks.app.flow(
        chain(job("a"), fan_in([job("b1"), chain(job("b2"), job("b3"))], job("c")), job("d"))
    ).submit()
    drain(tasks.app)
    assert tasks.ran == ["a", "b1", "b2", "b3", "c", "d"]
    assert list(handle.jobs) == ["step", *(f"step-{n}" for n in range(2, 7))]
    assert list(handle.results().values()) == tasks.ran


def test_each_submission_is_a_flow_of_its_own(tasks: Tasks) -> None:
    flow = tasks.app.flow(chain(tasks.job("a"), tasks.job("b")))
    one, two = flow.submit(), flow.submit()
    assert one != two
    assert tasks.app.jobs.count(flow=one.id) == tasks.app.jobs.count(flow=two.id) == 2
    assert {job.id for job in tasks.app.jobs.find(flow=one.id)} == {job.id for job in one}
    assert tasks.app.jobs.cancel(flow=one.id) == 2
    assert set(two.states().values()) == {State.SCHEDULED, State.PENDING}


def test_a_flow_is_found_again_by_its_id(tasks: Tasks) -> None:
    handle = tasks.app.flow(fan_out(tasks.job("a"), [tasks.job("b"), tasks.job("c")])).submit()
    again = tasks.app.flows.get(handle.id)
    assert again == handle
    assert again.jobs == handle.jobs
    assert list(again.jobs) == list(handle.jobs)
    assert handle.id in repr(again)
    with pytest.raises(FlowNotFoundError, match=NOBODY):
        tasks.app.flows.get(NOBODY)


def test_nothing_of_a_flow_that_is_refused_is_stored(tasks: Tasks) -> None:
    """S1-65, S1-68."""
    app = tasks.app
    with pytest.raises(DependencyCycleError, match="a → b → a"):
        app.flow({"a": tasks.job("a", after="b"), "b": tasks.job("b", after="a")})
    with pytest.raises(UnknownDependencyError):
        app.flow([("a", tasks.job("a")), ("b", tasks.job("b", after=["a", NOBODY]))]).submit()
    with pytest.raises(InvalidJobError, match=f"{BULK_MAX:,}"):
        app.flow([tasks.job("a")] * (BULK_MAX + 1))
    assert app.jobs.count() == 0


def test_a_flow_may_wait_for_a_job_that_is_stored(tasks: Tasks) -> None:
    first = tasks.step.submit("first")
    tasks.app.flow({"a": tasks.job("a", after=first), "b": tasks.job("b", after="a")}).submit()
    drain(tasks.app)
    assert tasks.ran == ["first", "a", "b"]


def test_a_failure_is_told_by_the_one_that_failed(tasks: Tasks) -> None:
    """C27."""
    tasks.bad = {"b"}
    handle = tasks.app.flow(chain(tasks.job("a"), tasks.job("b"), tasks.job("c"))).submit()
    drain(tasks.app)
    assert list(handle.wait().values()) == [DONE, FAILED, FAILED]
    with pytest.raises(JobFailedError, match=handle["step-2"].id):
        handle.results()


def test_a_flow_is_run_again_from_where_it_failed(tasks: Tasks) -> None:
    """C36."""
    tasks.bad = {"b"}
    job = tasks.job
    handle = tasks.app.flow(
        {"a": job("a"), "b": job("b", after="a"), "c": job("c", after="b"), "d": job("d")}
    ).submit()
    drain(tasks.app)
    tasks.bad.clear()
    assert handle.retry() == 2
    assert handle.states() == {"a": DONE, "b": State.SCHEDULED, "c": State.PENDING, "d": DONE}
    assert handle.retry() == 0
    drain(tasks.app)
    assert sorted(tasks.ran) == ["a", "b", "b", "c", "d"]
    assert set(handle.states().values()) == {DONE}


def test_what_gathers_is_run_again_after_what_was_spawned(tasks: Tasks) -> None:
    """C29, C36: spawned jobs are younger than what waits for them."""
    tasks.spawns, tasks.bad = ["s1", "s2"], {"s1"}
    handle = tasks.app.flow(
        chain(fan_in([tasks.brood.prepare()], tasks.job("last")), tasks.job("end"))
    ).submit()
    drain(tasks.app)
    assert list(handle.wait().values()) == [DONE, FAILED, FAILED]
    tasks.bad.clear()
    assert tasks.app.flows.get(handle.id).retry() == 3
    drain(tasks.app)
    assert list(handle.wait().values()) == [DONE, DONE, DONE]
    assert tasks.ran[-2:] == ["last", "end"]
    names = list(tasks.app.flows.get(handle.id).jobs)
    assert names == ["brood", "step", "step-2", "step-3", "step-4"]


def test_a_dead_letter_that_was_replayed_is_not_run_again_beside(tasks: Tasks) -> None:
    tasks.bad = {"a"}
    handle = tasks.app.flow({"a": tasks.job("a"), "b": tasks.job("b")}).submit()
    drain(tasks.app)
    fresh = tasks.app.dead_letters.replay(handle["a"].id)
    assert handle.retry() == 0
    assert tasks.app.flows.get(handle.id)["a"] == fresh


def test_cancelling_a_flow_counts_every_job_once(tasks: Tasks) -> None:
    """S1-73."""
    handle = tasks.app.flow(
        chain(tasks.job("a"), fan_in([tasks.job("b"), tasks.job("c")], tasks.job("d")))
    ).submit()
    assert handle.cancel() == 4
    assert set(handle.wait().values()) == {CANCELLED}
    assert handle.cancel() == 0
    with pytest.raises(JobCancelledError):
        handle.results()
    assert handle.retry() == 4


def test_waiting_for_a_flow_ends_in_time(tasks: Tasks) -> None:
    handle = tasks.app.flow(chain(tasks.job("a"), tasks.job("b"))).submit()
    with pytest.raises(WaitTimeoutError):
        handle.wait(timeout=0.01)
    with pytest.raises(WaitTimeoutError):
        handle.results(timeout=0.01)


def test_a_flow_with_keys_can_be_submitted_again_after_an_unknown_outcome(tasks: Tasks) -> None:
    """C15: what was stored the first time is returned, and waited for, and no second time."""
    flow = tasks.app.flow(
        {"a": tasks.job("a", key="day:a"), "b": tasks.job("b", after="a", key="day:b")}
    )
    first, again = flow.submit(), flow.submit()
    assert [job.id for job in again] == [job.id for job in first]
    assert all(job.duplicate for job in again)
    with pytest.raises(WaitTimeoutError):
        again.wait(timeout=0.01)
    drain(tasks.app)
    assert again.results() == {"a": "a", "b": "b"}
    assert tasks.ran == ["a", "b"]


async def test_the_awaited_face_does_the_same(tasks: Tasks) -> None:
    app = tasks.app.aio
    tasks.bad = {"b"}
    handle = await app.flow(chain(tasks.job("a"), tasks.job("b"), tasks.job("c"))).submit()
    await drain.aio(tasks.app)
    assert list((await handle.wait()).values()) == [DONE, FAILED, FAILED]
    with pytest.raises(JobFailedError):
        await handle.results()
    tasks.bad.clear()
    assert await (await app.flows.get(handle.id)).retry() == 2
    await drain.aio(tasks.app)
    assert list((await handle.results()).values()) == ["a", "b", "c"]
    assert set((await handle.states()).values()) == {DONE}
    second = await tasks.app.flow(chain(tasks.job("a"), tasks.job("b"))).aio.submit()
    assert await second.cancel() == 2
    again = tasks.app.flows.get(second.id)
    assert await again.aio["step-2"].refresh() == again["step-2"].refresh()
