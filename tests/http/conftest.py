"""An app with its HTTP API, on both stores that need no server, and a caller without a socket."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from tests.http.sockets import Serving, serving

from fencepost import App, PermanentError
from fencepost.http import asgi


@pytest.fixture(params=["httptools", "h11"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two parsers that a server may have, with the event loop that goes with it."""
    if request.param == "h11":
        # As if the quicker ones were not installed.
        monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
        monkeypatch.setitem(sys.modules, "uvloop", None)
    name: str = request.param
    return name


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app with some tasks."""
    with App(url) as app:

        @app.task(queue="sums", priority="high")
        def add(a: int, b: int = 0) -> int:
            return a + b

        @app.task
        def fail(message: str) -> None:
            raise PermanentError(message)

        @app.task
        def size(data: bytes) -> int:
            return len(data)

        yield app


class Caller:
    """Asks an API, and insists that every answer is one that the API promises."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Return the answer, checked for what all answers have."""
        if body is not None:
            options["json"] = body
        response = await self.client.request(method, path, **options)
        assert response.headers["x-request-id"]
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            problem = response.json()
            assert problem["status"] == response.status_code
            assert problem["type"].endswith(problem["code"])
            assert problem["request_id"] == response.headers["x-request-id"]
        return response

    async def get(self, path: str, **options: Any) -> Any:
        """Return what is at *path*, which must be there."""
        response = await self.ask("GET", path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Return the answer to *body*, which must have this status."""
        response = await self.ask("POST", path, body)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the status and the code of a request that must be refused."""
        response = await self.ask(method, path, body, **options)
        assert response.status_code >= 400, response.text
        return response.status_code, response.json()["code"]

    async def submit(self, type: str, payload: Any = None, **options: Any) -> str:
        """Submit a job and return its id."""
        body = {"type": type, "payload": payload or {}, **options}
        job_id: str = (await self.post("/v1/jobs", body, status=201))["id"]
        return job_id

    async def claim(self, **options: Any) -> list[Any]:
        """Claim jobs as worker ``w1``."""
        body = {"worker": "w1", "limit": 10, **options}
        jobs: list[Any] = (await self.post("/v1/claims", body))["jobs"]
        return jobs


@pytest.fixture
async def api(app: App) -> AsyncIterator[Caller]:
    """A caller on this machine, who needs no token."""
    transport = httpx.ASGITransport(app=asgi(app, is_local=True), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield Caller(client)


@pytest.fixture
def served(app: App, parser: str) -> Iterator[Serving]:
    """A server of the app on a socket, as it is without options."""
    with serving(app) as made:
        yield made
