"""The faces of the client are alike, and have the names and arguments of the app's."""

from __future__ import annotations

import inspect

import pytest
from tests.app.test_faces import parameters, public

from fencepost import App, Client, app, client
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

PAIRS: list[tuple[type, type]] = [
    (Client, client.AsyncClient),
    (client.TaskHandle, client.AsyncTaskHandle),
    (client.JobHandle, client.AsyncJobHandle),
    (client.EventHandle, client.AsyncEventHandle),
    (client.Flow, client.AsyncFlow),
    (client.FlowHandle, client.AsyncFlowHandle),
    (Jobs, AsyncJobs),
    (Flows, AsyncFlows),
    (DeadLetterList, AsyncDeadLetterList),
    (Events, AsyncEvents),
    (QueueList, AsyncQueueList),
    (TypeList, AsyncTypeList),
    (WorkerList, AsyncWorkerList),
    (CronTable, AsyncCronTable),
    (ReplayTable, AsyncReplayTable),
]
PLAIN = {"using", "prepare", "flow", "to_dict", "to_json", "task", "event"}
"""Methods that ask no server, and are the same in both faces."""

SHARED: list[tuple[type, type]] = [
    (app.JobHandle, client.JobHandle),
    (app.AsyncJobHandle, client.AsyncJobHandle),
    (app.Flow, client.Flow),
    (app.FlowHandle, client.FlowHandle),
]
PARTS = {
    "jobs": Jobs,
    "flows": Flows,
    "dead_letters": DeadLetterList,
    "events": Events,
    "queues": QueueList,
    "types": TypeList,
    "workers": WorkerList,
    "crons": CronTable,
    "replays": ReplayTable,
}
# Where the client differs: it has no function to look at, no store, and nobody's transaction.
NAMES: list[tuple[type, type, set[str]]] = [
    (app.TaskHandle, client.TaskHandle, set()),
    (app.EventHandle, client.EventHandle, {"on", "using", "pattern"}),
    (App, Client, {"cron", "worker", "store", "migrate", "asgi", "full_retention", "lifespan"}),
]


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_faces_have_the_same_names_and_arguments(sync: type, asynchronous: type) -> None:
    assert public(sync).keys() - {"aio"} == public(asynchronous).keys()
    for name, member in public(asynchronous).items():
        if isinstance(member, property):
            continue
        other = getattr(sync, name)
        assert parameters(member) == parameters(other), name
        ours = {p.name: p.annotation for p in inspect.signature(member).parameters.values()}
        theirs = {p.name: p.annotation for p in inspect.signature(other).parameters.values()}
        assert ours == theirs, name
        assert inspect.iscoroutinefunction(member) == (name not in PLAIN), name
        assert not inspect.iscoroutinefunction(other), name
        assert member.__doc__, name
        assert other.__doc__, name


@pytest.mark.parametrize(("near", "far"), SHARED, ids=[far.__name__ for _, far in SHARED])
def test_the_client_takes_what_the_app_takes(near: type, far: type) -> None:
    """They are one class over two backends."""
    assert near is far


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_of_a_client_are_those_of_an_app(name: str) -> None:
    near, far = App("memory://"), Client("http://x")
    assert type(getattr(near, name)) is type(getattr(far, name)) is PARTS[name]
    assert type(getattr(near.aio, name)) is type(getattr(far.aio, name))


@pytest.mark.parametrize(
    ("near", "far", "missing"), NAMES, ids=[f"{far.__name__}" for _, far, _ in NAMES]
)
def test_the_client_has_the_names_of_the_app(near: type, far: type, missing: set[str]) -> None:
    assert public(near).keys() - missing <= public(far).keys()


def test_the_parts_of_a_client_have_two_faces() -> None:
    here = Client("http://x")
    for name in PARTS:
        assert (
            type(getattr(here.aio, name)).__name__ == f"Async{type(getattr(here, name)).__name__}"
        )
