"""Refused writes, as an operator sees them: of workers over HTTP, and of others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.clocked import WatchedStore
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.bounds import REFUSALS_RATE
from fencepost.core.job.outcome import Succeeded, decide, settlement_of
from fencepost.core.values.payload import NULL
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import Beat, ClaimRequest, LeaseLost
from fencepost.store.interface.records.refusals import RefusalsFacet
from fencepost.testing.clock import FakeClock


@pytest.fixture
def store(clock: FakeClock) -> WatchedStore:
    return WatchedStore(RefusalsFacet.record, clock)


@pytest.fixture
def app(store: WatchedStore) -> App:
    return App(store=store)


async def stale(app: App, api: Caller, clock: FakeClock) -> tuple[str, Any, Any]:
    """Return a job, the lease that one worker lost, and the lease that another has."""
    job_id = await api.submit("work", retry={"initial_delay": 0})
    (first,) = await api.claim(lease_ttl="10s")
    clock.advance(3600)
    store = app.session.store
    store.run(store.upkeep.recover(1))
    store.run(store.upkeep.promote(1))
    (second,) = await api.claim(worker="w2", lease_ttl="10s")
    return job_id, first["lease"], second["lease"]


async def test_what_is_refused_over_http_is_shown_and_counted(
    app: App, api: Caller, clock: FakeClock
) -> None:
    job_id, old, new = await stale(app, api, clock)
    asked = f"/v1/jobs/{job_id}/refusals"
    assert await api.get(asked) == {"refusals": []}
    for write, more in (
        ("ack", {"result": 1}),
        ("nack", {"message": "no"}),
        ("release", {}),
        ("heartbeat", {}),
        ("checkpoint", {"checkpoint": 1}),
    ):
        body = {"id": job_id, "token": old["token"], **more}
        assert await api.refused("POST", f"/v1/leases/{write}", body) == (409, "stale_lease")
        clock.advance(0.5)
    found = (await api.get(asked))["refusals"]
    assert [each["operation"] for each in found] == ["save", "heartbeat", "release", "nack", "ack"]
    assert {each["fence_present"] for each in found} == {new["version"]}
    assert {each["fence_held"] for each in found} == {each["worker"] for each in found} == {None}
    assert (await api.get("/v1/stats"))["refused"] == 5
    done = {"id": job_id, "token": new["token"]}
    await api.post("/v1/leases/ack", done)
    await api.post("/v1/leases/ack", done)  # repeated: it was recorded, and is not refused
    assert len((await api.get(asked))["refusals"]) == 5


async def test_a_worker_that_knows_its_lease_is_named(
    app: App, api: Caller, clock: FakeClock
) -> None:
    """The fence that it held leads to its attempt."""
    store = app.session.store
    job_id = await api.submit("work", retry={"initial_delay": 0})
    request = ClaimRequest(worker="app-1:3977", types=frozenset(["work"]), limit=1, lease_ttl=10.0)
    (claimed,) = store.run(store.queue.claim(request)).jobs
    clock.advance(3600)
    store.run(store.upkeep.recover(1))
    store.run(store.upkeep.promote(1))
    (other,) = await api.claim(worker="w2")
    settlement = settlement_of(claimed, decide(claimed, Succeeded(NULL), app.session.clock.rng))
    assert isinstance(store.run(store.queue.settle([settlement]))[0], LeaseLost)
    beat = Beat(claimed.id, claimed.lease.token, 10.0, claimed.lease.version)
    assert isinstance(store.run(store.queue.heartbeat([beat]))[0], LeaseLost)
    found = (await api.get(f"/v1/jobs/{job_id}/refusals"))["refusals"]
    assert [each["operation"] for each in found] == ["heartbeat", "ack"]
    for each in found:
        assert each["worker"] == "app-1:3977"
        assert each["fence_held"] == claimed.lease.version < each["fence_present"]
        assert each["fence_present"] == other["lease"]["version"]


async def test_a_worker_that_is_told_of_a_cancellation_has_tried_nothing(
    app: App, api: Caller
) -> None:
    job_id = await api.submit("work")
    (claimed,) = await api.claim()
    await api.post(f"/v1/jobs/{job_id}/cancel")
    lease = {"id": job_id, "token": claimed["lease"]["token"]}
    assert await api.refused("POST", "/v1/leases/heartbeat", lease) == (409, "stale_lease")
    assert (await api.get(f"/v1/jobs/{job_id}/refusals"))["refusals"] == []
    assert await api.refused("POST", "/v1/leases/ack", lease) == (409, "stale_lease")
    assert len((await api.get(f"/v1/jobs/{job_id}/refusals"))["refusals"]) == 1


async def test_a_refusal_stands_if_it_cannot_be_recorded(
    app: App, api: Caller, clock: FakeClock, store: WatchedStore
) -> None:
    job_id, old, _ = await stale(app, api, clock)
    lease = {"id": job_id, "token": old["token"]}
    for trouble in (StoreUnavailableError("away"), RuntimeError("a defect")):
        store.trouble = trouble
        assert await api.refused("POST", "/v1/leases/ack", lease) == (409, "stale_lease")
    store.trouble = None
    assert (await api.get(f"/v1/jobs/{job_id}/refusals"))["refusals"] == []


async def test_who_repeats_a_stale_write_is_recorded_a_few_times_a_second(
    app: App, api: Caller, clock: FakeClock
) -> None:
    job_id, old, _ = await stale(app, api, clock)
    lease = {"id": job_id, "token": old["token"]}
    for _ in range(50):
        assert await api.refused("POST", "/v1/leases/ack", lease) == (409, "stale_lease")
    recorded = (await api.get("/v1/stats"))["refused"]
    assert REFUSALS_RATE <= recorded <= REFUSALS_RATE + 5
