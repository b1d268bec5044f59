"""``app.asgi()`` inside somebody else's application."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.http.conftest import Caller

from fencepost import App


@pytest.fixture
def url() -> str:
    return "memory://"


async def test_the_api_works_below_a_path_and_always_asks_for_a_token(app: App) -> None:
    site = Starlette(routes=[Mount("/queue", app.asgi())])
    transport = httpx.ASGITransport(app=site)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        api = Caller(client)
        body = {"type": "add", "payload": {"a": 1}}
        assert await api.refused("POST", "/queue/v1/jobs", body) == (401, "unauthenticated")
        assert app.jobs.count() == 0
        token = app.tokens.create("site", roles=["submit", "read"]).text
        client.headers["authorization"] = f"Bearer {token}"
        # A server that has just looked in vain looks again within a second.
        response = await api.ask("GET", "/queue/v1/jobs")
        while response.status_code == 401:
            response = await api.ask("GET", "/queue/v1/jobs")
        response = await api.ask("POST", "/queue/v1/jobs", body)
        location = response.headers["location"]
        assert location.startswith("/queue/v1/jobs/")
        assert (await api.get(location))["payload"] == {"a": 1}
        assert await api.refused("GET", "/queue/nowhere") == (404, "not_found")
        assert (await api.ask("DELETE", "/queue/v1/jobs")).status_code == 405
