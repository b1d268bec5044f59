"""The faces of the client are alike, and have the names and arguments of the app's."""

from __future__ import annotations

import inspect

import pytest
from tests.app.test_faces import parameters, public

from fencepost import App, Client, app, client
from fencepost.client.crons import AsyncCrons, Crons
from fencepost.client.dead_letters import AsyncDeadLetterList, DeadLetterList
from fencepost.client.events import AsyncEvents, Events
from fencepost.client.flows import AsyncFlows, Flows
from fencepost.client.jobs import AsyncJobs, Jobs
from fencepost.client.lanes import (
    AsyncQueues,
    AsyncTypes,
    AsyncWorkers,
    Queues,
    Types,
    Workers,
)
from fencepost.handles.crons import Crons as AppCrons
from fencepost.handles.dead_letters import DeadLetterList as AppDeadLetterList
from fencepost.handles.events import Events as AppEvents
from fencepost.handles.flows import Flows as AppFlows
from fencepost.handles.jobs import Jobs as AppJobs
from fencepost.handles.queues import Queues as AppQueues
from fencepost.handles.queues import Types as AppTypes
from fencepost.handles.queues import Workers as AppWorkers

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
    (Queues, AsyncQueues),
    (Types, AsyncTypes),
    (Workers, AsyncWorkers),
    (Crons, AsyncCrons),
]
PLAIN = {"using", "prepare", "flow", "task", "event"}
"""Methods that ask no server, and are the same in both faces."""

# Where the client differs: it has no function to look at, no store, and nobody's transaction.
SAME: list[tuple[type, type, set[str]]] = [
    (app.JobHandle, client.JobHandle, set()),
    (app.FlowHandle, client.FlowHandle, set()),
    (AppJobs, Jobs, {"count"}),
    (AppFlows, Flows, set()),
    (AppDeadLetterList, DeadLetterList, set()),
    (AppEvents, Events, set()),
    (AppQueues, Queues, set()),
    (AppTypes, Types, set()),
    (AppWorkers, Workers, set()),
    (AppCrons, Crons, set()),
]
NAMES: list[tuple[type, type, set[str]]] = [
    (app.TaskHandle, client.TaskHandle, set()),
    (app.EventHandle, client.EventHandle, {"on", "using", "pattern"}),
    (App, Client, {"cron", "worker", "store", "migrate", "asgi", "full_retention"}),
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


@pytest.mark.parametrize(
    ("near", "far", "otherwise"), SAME, ids=[f"{far.__name__}" for _, far, _ in SAME]
)
def test_the_client_takes_what_the_app_takes(near: type, far: type, otherwise: set[str]) -> None:
    assert public(near).keys() == public(far).keys()
    for name, member in public(near).items():
        if not isinstance(member, property) and name not in otherwise:
            assert parameters(member) == parameters(getattr(far, name)), name


@pytest.mark.parametrize(
    ("near", "far", "missing"), NAMES, ids=[f"{far.__name__}" for _, far, _ in NAMES]
)
def test_the_client_has_the_names_of_the_app(near: type, far: type, missing: set[str]) -> None:
    assert public(near).keys() - missing <= public(far).keys()


def test_the_parts_of_a_client_have_two_faces() -> None:
    here = Client("http://x")
    for name in ("jobs", "flows", "dead_letters", "events", "queues", "types", "workers", "crons"):
        assert (
            type(getattr(here.aio, name)).__name__ == f"Async{type(getattr(here, name)).__name__}"
        )
