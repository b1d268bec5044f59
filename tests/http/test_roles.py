"""Every route with every role: who may ask what, and about which queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.access.tokens import Role
from fencepost.http import asgi
from fencepost.http.request.route import Route
from fencepost.http.routes import ROUTES

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


@pytest.fixture
def url() -> str:
    """One store will do: who may ask is decided before any is asked."""
    return "memory://"


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=asgi(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://api.example") as client:
        yield client


async def status_of(client: httpx.AsyncClient, route: Route, token: str | None) -> int:
    """Return what a request of *route* is answered with; not for long, if it would be a stream."""
    path = route.path.format(id=NOBODY, name="mail", queue="mail")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    body: Any = {} if route.body is None else {"json": {}}
    response = await client.request(route.method, path, headers=headers, **body)
    return response.status_code


def is_streamed(route: Route) -> bool:
    return route.media_type == "text/event-stream"


PLAIN = [route for route in ROUTES if not is_streamed(route)]


@pytest.mark.parametrize("route", PLAIN, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_is_open_to_its_roles_and_to_nobody_else(
    app: App, client: httpx.AsyncClient, route: Route
) -> None:
    # All are made first: a server reads them now and then.
    tokens = {role: app.tokens.create(f"{role} alone", roles=[role]).text for role in Role}
    others = [role for role in Role if role not in (*route.roles, Role.ADMIN)]
    wrong = app.tokens.create("all but those", roles=others).text if others else ""
    for role, token in tokens.items():
        is_allowed = not route.roles or role in route.roles or role is Role.ADMIN
        status = await status_of(client, route, token)
        assert (status != 403) is is_allowed, (role, status)
        assert status != 401
    if route.roles:
        assert not others or await status_of(client, route, wrong) == 403
        for none in (None, "", "fp_forged", wrong[:-1] + "x"):
            assert await status_of(client, route, none) == 401


@pytest.mark.parametrize("route", PLAIN, ids=lambda route: f"{route.method} {route.path}")
async def test_what_concerns_all_queues_is_closed_to_a_token_for_one(
    app: App, client: httpx.AsyncClient, route: Route
) -> None:
    token = app.tokens.create("mail", roles=["admin"], queues=["mail"]).text
    status = await status_of(client, route, token)
    assert (status == 403) is route.is_store_wide, status


@pytest.fixture
def scoped(app: App) -> Any:
    """Makes callers whose token is for the queue ``mail`` alone."""
    token = app.tokens.create("mail", roles=["submit", "read", "work", "operate"], queues=["mail"])

    def make(client: httpx.AsyncClient) -> Caller:
        client.headers["authorization"] = f"Bearer {token.text}"
        return Caller(client)

    return make


async def test_a_token_for_one_queue_reaches_no_other(
    app: App, client: httpx.AsyncClient, scoped: Any
) -> None:
    other = app.session.task("add").queue
    assert other == "sums"
    foreign = TaskOf(app, "add").submit(1)
    api = scoped(client)
    mine = await api.submit("letter", queue="mail")
    for body in ({"type": "letter"}, {"type": "add", "payload": {"a": 1}}):
        assert await api.refused("POST", "/v1/jobs", body) == (403, "forbidden")
    answers = (await api.post("/v1/jobs/batch", {"jobs": [{"type": "x"}]}, status=201))["jobs"]
    assert answers[0]["code"] == "forbidden"
    nodes = {"a": {"type": "x", "queue": "mail"}, "b": {"type": "x"}}
    assert await api.refused("POST", "/v1/flows", {"nodes": nodes}) == (403, "forbidden")
    # What it may not see is not there for it.
    for method, path in (
        ("GET", f"/v1/jobs/{foreign}"),
        ("GET", f"/v1/jobs/{foreign}/result"),
        ("GET", f"/v1/jobs/{foreign}/attempts"),
        ("GET", f"/v1/jobs/{foreign}/wait?timeout=0"),
        ("POST", f"/v1/jobs/{foreign}/cancel"),
        ("POST", f"/v1/jobs/{foreign}/retry"),
        ("POST", f"/v1/dead-letters/{foreign}/replay"),
        ("DELETE", f"/v1/dead-letters/{foreign}"),
    ):
        assert await api.refused(method, path) == (404, "job_not_found"), path
    patched = await api.refused("PATCH", f"/v1/jobs/{foreign}", {"priority": 0})
    assert patched == (404, "job_not_found")
    assert [job["id"] for job in (await api.get("/v1/jobs"))["jobs"]] == [mine]
    assert await api.refused("GET", "/v1/jobs?queue=sums") == (403, "forbidden")
    assert [queue["name"] for queue in (await api.get("/v1/queues"))["queues"]] == ["mail"]
    assert await api.refused("POST", "/v1/queues/sums/pause") == (403, "forbidden")
    assert (await api.post("/v1/jobs/cancel", {"type": "add"}))["count"] == 0
    assert await api.refused("POST", "/v1/claims", {"queues": ["sums"]}) == (403, "forbidden")
    assert await api.claim(types=["add"]) == []
    assert [job["id"] for job in await api.claim()] == [mine]
    assert app.jobs.get(foreign).refresh().state == "scheduled"


class TaskOf:
    """Submits past the API."""

    def __init__(self, app: App, type: str) -> None:
        self._app, self._type = app, type

    def submit(self, a: int) -> str:
        from fencepost.actions.options import Options
        from fencepost.app import TaskHandle

        session = self._app.session
        task: TaskHandle[..., Any] = TaskHandle(session, session.task(self._type), Options())
        return task.submit(a).id


async def test_a_token_for_two_queues_must_say_which(app: App, client: httpx.AsyncClient) -> None:
    token = app.tokens.create("two", roles=["read"], queues=["mail", "bulk"]).text
    client.headers["authorization"] = f"Bearer {token}"
    api = Caller(client)
    assert await api.refused("GET", "/v1/jobs") == (403, "forbidden")
    assert await api.get("/v1/jobs?queue=bulk") == {
        "jobs": [],
        "next": None,
        "looked": None,
        "unreadable": 0,
    }


async def test_an_operator_without_the_right_to_read_sees_no_payload(
    app: App, client: httpx.AsyncClient
) -> None:
    job_id = TaskOf(app, "add").submit(1)
    token = app.tokens.create("operator", roles=["operate"]).text
    client.headers["authorization"] = f"Bearer {token}"
    answer = await Caller(client).post(f"/v1/jobs/{job_id}/cancel")
    assert answer["state"] == "cancelled"
    assert "payload" not in answer
