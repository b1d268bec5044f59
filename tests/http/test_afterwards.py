"""A store that goes away right after it has written: 503 would say that nothing was done."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.facet import Method
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.records.overview import OverviewFacet
from fencepost.store.plan import Operation


def lose(app: App, monkeypatch: pytest.MonkeyPatch, method: Method) -> None:
    """Have the store be away for every operation of *method*."""
    store = app.store
    run_async = store.run_async

    async def run(operation: Operation[Any]) -> Any:
        if operation.is_a(method):
            raise StoreUnavailableError("away")
        return await run_async(operation)

    monkeypatch.setattr(store, "run_async", run)


async def test_what_was_stored_before_a_failed_look_is_not_said_to_be_undone(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(app, monkeypatch, ReaderFacet.get)
    body = {"type": "add", "payload": {"a": 1}, "delay": "1h"}
    assert await api.refused("POST", "/v1/jobs", body) == (504, "unknown_outcome")
    assert app.jobs.count() == 1


async def test_what_was_paused_before_a_failed_look_is_not_said_to_be_undone(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(app, monkeypatch, OverviewFacet.queues)
    refused = await api.refused("POST", "/v1/queues/mail/pause")
    assert refused == (504, "unknown_outcome")
    assert [queue.is_paused for queue in app.queues.list()] == [True]


async def test_jobs_that_cannot_be_handed_over_whole_are_given_back(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {"a": {"type": "x"}, "b": {"type": "y", "after": ["a"]}}
    await api.post("/v1/flows", {"nodes": nodes}, status=201)
    (first,) = await api.claim()
    body = {"id": first["id"], "token": first["lease"]["token"]}
    await api.post("/v1/leases/ack", body)
    with monkeypatch.context() as away:
        lose(app, away, ReaderFacet.dependencies)
        refused = await api.refused("POST", "/v1/claims", {"worker": "w1"})
    assert refused == (503, "store_unavailable")
    (second,) = await api.claim()
    assert (second["type"], second["attempt"]) == ("y", 1)
