"""The store is away, or does not say what became of a request: callers are told, and what to do.

PostgreSQL alone can be away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from tests.http.conftest import Caller
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.servers.postgres import PostgresServer
from tests.store.postgres.cutting import Proxy

from fencepost import App, Timeouts
from fencepost.errors import UnknownOutcomeError
from fencepost.http import asgi

NOBODY = "5f0c3b0e-6a51-4b7e-9d0a-2f6f3c1d8e47"
LEASED = {"id": NOBODY, "token": "t"}


async def calling(app: App) -> AsyncIterator[Caller]:
    transport = httpx.ASGITransport(app=asgi(app, is_local=True), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield Caller(client)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def app(server: PostgresServer) -> Iterator[App]:
    """An app on a server of its own, which a test may stop."""
    with App(server.create_database("jobs"), timeouts=Timeouts(submission=1)) as app:
        app.migrate()
        yield app
    server.drop_database("jobs")


@pytest.fixture
async def api(app: App) -> AsyncIterator[Caller]:
    async for caller in calling(app):
        yield caller


async def test_a_store_that_is_away_is_told_of_and_asked_again(
    api: Caller, server: PostgresServer
) -> None:
    """S0-56: surely not done, and when to come back; nothing of the server's whereabouts."""
    job_id = await api.submit("before")
    server.stop()
    try:
        for method, path, body in (
            ("POST", "/v1/jobs", {"type": "while"}),
            ("POST", "/v1/jobs/batch", {"jobs": [{"type": "while"}]}),
            ("GET", f"/v1/jobs/{job_id}", None),
            ("POST", f"/v1/jobs/{job_id}/cancel", None),
            ("POST", "/v1/leases/ack", LEASED),
        ):
            response = await api.ask(method, path, body)
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            problem = response.json()
            assert problem["code"] == "store_unavailable"
            assert "nothing was done" in problem["detail"]
            assert str(server.port) not in response.text
        assert (await api.ask("GET", "/health/ready")).status_code == 503
        assert (await api.ask("GET", "/health/live")).status_code == 200
    finally:
        server.start()
    await api.submit("after")
    jobs = (await api.get("/v1/jobs"))["jobs"]
    assert {job["type"] for job in jobs} == {"before", "after"}


@pytest.fixture
def proxy(fresh_postgres: FreshPostgres) -> Iterator[Proxy]:
    url = fresh_postgres(postgres_sources()[0])
    with App(url) as app:
        app.migrate()
    with Proxy(url) as proxy:
        yield proxy


@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_submission_of_unknown_outcome_says_so_and_is_repeated_with_its_key(
    proxy: Proxy, is_committed: bool
) -> None:
    """C38: the connection is cut behind the commit, or before it."""
    with App(proxy.url) as app:
        async for api in calling(app):
            await api.submit("work", key="key 1")
            proxy.cut_request_with("key 2", is_heard=is_committed)
            body = {"type": "work", "key": "key 2"}
            response = await api.ask("POST", "/v1/jobs", body)
            assert response.status_code == 504
            assert response.headers["retry-after"] == "1"
            problem = response.json()
            assert problem["code"] == "unknown_outcome"
            assert "same idempotency key" in problem["detail"]
            repeated = await api.ask("POST", "/v1/jobs", body)
            assert repeated.status_code == (200 if is_committed else 201)
            assert repeated.json()["duplicate"] is is_committed
            assert len((await api.get("/v1/jobs"))["jobs"]) == 2


@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_settlement_of_unknown_outcome_is_repeated_with_its_token(
    proxy: Proxy, is_committed: bool
) -> None:
    """S0-57: the repeat says whether it had been recorded."""
    with App(proxy.url) as app:
        async for api in calling(app):
            await api.submit("work")
            (job,) = await api.claim()
            ack = {"id": job["id"], "token": job["lease"]["token"], "result": "r31415"}
            proxy.cut_request_with("r31415", is_heard=is_committed)
            assert await api.refused("POST", "/v1/leases/ack", ack) == (504, "unknown_outcome")
            reply = await api.post("/v1/leases/ack", ack)
            assert reply["repeated"] is is_committed
            assert reply["state"] == "completed"


async def test_a_batch_of_unknown_outcome_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """A store that commits and then cannot say so; none of what it says of itself is passed on."""
    with App("memory://") as app:
        store = app.session.store
        run = store.run_async

        async def lose(plan: object) -> None:
            await run(plan)  # type: ignore[arg-type]  # whatever plan it is
            raise UnknownOutcomeError("secret-host: lost")

        async for api in calling(app):
            await api.get("/v1/jobs")
            monkeypatch.setattr(store, "run_async", lose)
            response = await api.ask("POST", "/v1/jobs/batch", {"jobs": [{"type": "work"}]})
            monkeypatch.undo()
            assert response.status_code == 504
            assert "secret-host" not in response.text
            assert len((await api.get("/v1/jobs"))["jobs"]) == 1
