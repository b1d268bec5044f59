"""There are two ways to an endpoint: past Starlette, in a server of ours, and through it."""

from __future__ import annotations

import httpx
import pytest

from fencepost import App
from fencepost.core.values.names import is_id
from fencepost.http import asgi
from fencepost.http.api import REQUEST_IDS
from fencepost.http.request.route import Route
from fencepost.http.routes import ROUTES
from fencepost.http.server.gate import Gate
from fencepost.testing import FakeClock

FIXED = [route for route in ROUTES if "{" not in route.path and "stream" not in route.media_type]
REQUEST_ID = {"x-request-id": "the-same"}


@pytest.fixture
def app() -> App:
    return App("memory://", clock=FakeClock())


async def ask(app: App, method: str, path: str, *, is_direct: bool) -> httpx.Response:
    served = asgi(app, is_local=True)
    direct = served.state.direct if is_direct else {}
    gate = Gate(served, app.session.clock, head_max=10_000, direct=direct)
    transport = httpx.ASGITransport(app=gate)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, headers=REQUEST_ID)


@pytest.mark.parametrize("route", FIXED, ids=lambda route: f"{route.method} {route.path}")
async def test_both_ways_answer_alike(app: App, route: Route) -> None:
    """Whatever is asked at a path without a parameter: also what it cannot do."""
    for method in (route.method, "HEAD", "TRACE"):
        for path in (route.path, f"{route.path}/", f"{route.path}?no=such"):
            short, long = [await ask(app, method, path, is_direct=d) for d in (True, False)]
            assert short.status_code == long.status_code, (method, path)
            assert short.headers.keys() == long.headers.keys()
            assert short.headers["x-request-id"] == "the-same"
            if short.status_code >= 400:
                assert short.content == long.content


def test_only_what_has_no_parameter_is_found_directly(app: App) -> None:
    direct = asgi(app).state.direct
    paths = {(route.method, route.path) for route in ROUTES if "{" not in route.path}
    assert direct.keys() == paths
    assert ("POST", "/v1/jobs") in direct


def test_requests_without_an_id_are_given_one_each(app: App) -> None:
    """They are drawn by the hundred, and no two are the same."""
    api = asgi(app).state.api
    drawn = [api.new_request_id() for _ in range(3 * REQUEST_IDS)]
    assert len({*drawn}) == len(drawn)
    assert all(is_id(each) for each in drawn)
