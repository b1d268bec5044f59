"""The sync and the async face have the same names, and take the same arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fencepost import App, Context
from fencepost.app import (
    AsyncApp,
    AsyncEventHandle,
    AsyncFlow,
    AsyncFlowHandle,
    AsyncJobHandle,
    AsyncTaskHandle,
    EventHandle,
    Flow,
    FlowHandle,
    JobHandle,
    TaskHandle,
)
from fencepost.handles.access import AsyncAudit, AsyncTokens, Audit, Tokens
from fencepost.handles.events import AsyncEvents, Events
from fencepost.handles.flows import AsyncFlows, Flows
from fencepost.handles.jobs import AsyncDeadLetterList, AsyncJobs, DeadLetterList, Jobs
from fencepost.handles.queues import (
    AsyncCronTable,
    AsyncQueueList,
    AsyncTypeList,
    AsyncWorkerList,
    CronTable,
    QueueList,
    TypeList,
    WorkerList,
)
from fencepost.handles.replays import AsyncReplayTable, ReplayTable
from fencepost.worker import AsyncContext
from fencepost.worker.worker import AsyncWorker, Worker

PAIRS: list[tuple[type, type, set[str]]] = [
    (
        App,
        AsyncApp,
        {"lifespan", "aio", "asgi", "cron", "full_retention", "event", "store", "worker"},
    ),
    (TaskHandle, AsyncTaskHandle, {"aio"}),
    (EventHandle, AsyncEventHandle, {"aio", "on"}),
    (JobHandle, AsyncJobHandle, {"aio"}),
    (Jobs, AsyncJobs, set()),
    (Flow, AsyncFlow, {"aio"}),
    (FlowHandle, AsyncFlowHandle, {"aio"}),
    (Flows, AsyncFlows, set()),
    (DeadLetterList, AsyncDeadLetterList, set()),
    (Events, AsyncEvents, set()),
    (QueueList, AsyncQueueList, set()),
    (TypeList, AsyncTypeList, set()),
    (WorkerList, AsyncWorkerList, set()),
    (CronTable, AsyncCronTable, set()),
    (ReplayTable, AsyncReplayTable, set()),
    (Tokens, AsyncTokens, set()),
    (Audit, AsyncAudit, set()),
    (Worker, AsyncWorker, {"aio", "is_retiring", "stop", "run_async"}),
]
"""Sync, async, and what needs no second face: it does not wait."""

each_pair = pytest.mark.parametrize(
    ("sync", "asynchronous", "alone"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS]
)

PLAIN = {"using", "prepare", "flow", "to_dict", "to_json"}
"""Methods that touch no store, and are the same in both faces."""


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    """Return name, kind and default of each parameter; the annotations name the other face."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]


@each_pair
def test_both_faces_have_the_same_names(sync: type, asynchronous: type, alone: set[str]) -> None:
    assert public(sync).keys() - alone == public(asynchronous).keys()
    assert alone <= public(sync).keys()


@each_pair
def test_both_faces_take_the_same_arguments(
    sync: type, asynchronous: type, alone: set[str]
) -> None:
    for name, member in public(asynchronous).items():
        if isinstance(member, property):
            continue
        assert parameters(member) == parameters(getattr(sync, name)), name
        assert inspect.iscoroutinefunction(member) == (name not in PLAIN), name
        assert not inspect.iscoroutinefunction(getattr(sync, name)), name
        assert member.__doc__, name


@each_pair
def test_both_faces_annotate_their_arguments_alike(
    sync: type, asynchronous: type, alone: set[str]
) -> None:
    for name, member in public(asynchronous).items():
        if isinstance(member, property):
            continue
        ours = {p.name: p.annotation for p in inspect.signature(member).parameters.values()}
        other = inspect.signature(getattr(sync, name)).parameters.values()
        assert ours == {p.name: p.annotation for p in other}, name


def test_the_parts_of_an_app_have_two_faces() -> None:
    app = App("memory://")
    for name in (
        *("jobs", "flows", "dead_letters", "events", "queues", "types", "workers", "crons"),
        *("tokens", "audit"),
    ):
        sync, asynchronous = getattr(app, name), getattr(app.aio, name)
        assert type(asynchronous).__name__ == f"Async{type(sync).__name__}"


def test_what_a_handler_writes_can_be_awaited() -> None:
    for name in public(AsyncContext):
        assert parameters(getattr(Context, name)) == parameters(getattr(AsyncContext, name))
    assert public(AsyncContext).keys() == {"checkpoint", "complete_in", "progress", "spawn"}


def test_handles_of_both_faces_are_equal_when_they_mean_the_same_job() -> None:
    app = App("memory://")

    @app.task
    def work() -> None: ...

    job, other = work.submit(), work.submit()
    assert job == job.aio
    assert hash(job) == hash(job.aio)
    assert job != other
    assert job != job.id
    assert job.id in repr(job)
    assert "scheduled" in repr(job)
    assert repr(work) == "<TaskHandle work>"
    assert repr(work.aio) == "<AsyncTaskHandle work>"
    assert repr(app) == "<App fencepost memory://>"
