"""Sessions: a browser exchanges a token for a cookie, with which pages of others can do nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.http.conftest import Caller
from tests.http.serving import serving

from fencepost import App, __version__
from fencepost.core.access.bounds import SESSION_SECONDS, TOKEN_REVOKED_SECONDS
from fencepost.http import asgi
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock

OWN = {"sec-fetch-site": "same-origin"}


def browser(app: App, base: str = "https://jobs.example", **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=asgi(app), raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url=base, **options)


@pytest.fixture
async def page(app: App) -> AsyncIterator[Caller]:
    """A browser that keeps cookies, and a server with tokens that is not this machine's alone."""
    async with browser(app) as client:
        yield Caller(client)


def token(app: App, *roles: str, **options: Any) -> str:
    return app.tokens.create("ada", roles=roles or ["read", "operate"], **options).text


async def sign_in(page: Caller, text: str) -> Any:
    return await page.post("/v1/session", {"token": text})


async def test_a_token_is_exchanged_for_a_cookie(app: App, page: Caller) -> None:
    """The cookie is all that is needed from then on, and says nothing of the token."""
    text = token(app, queues=["mail"])
    assert await page.refused("GET", "/v1/me") == (401, "unauthenticated")
    response = await page.ask("POST", "/v1/session", {"token": text})
    assert response.status_code == 200
    cookie = response.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Secure", "Max-Age=604800"):
        assert f"; {part}" in cookie
    assert not {*text.split("_")[1:]} & {*cookie.replace(";", "_").replace("=", "_").split("_")}
    me = await page.get("/v1/me")
    assert (me["name"], me["by"], me["roles"], me["queues"]) == (
        "ada",
        "session",
        ["read", "operate"],
        ["mail"],
    )
    assert me | {"at": None} == response.json() | {"at": None}
    assert (me["app"], me["version"]) == ("fencepost", __version__)
    assert me["store"]["engine"] == app.url.partition(":")[0]
    assert bool(me["store"]["durability"]) is (me["store"]["engine"] != "memory")
    assert [queue["name"] for queue in (await page.get("/v1/queues"))["queues"]] == []


async def test_who_comes_with_a_token_is_told_so(app: App, page: Caller) -> None:
    headers = {"authorization": f"Bearer {token(app, 'submit', expires='1h')}"}
    me = await page.get("/v1/me", headers=headers)
    assert (me["by"], me["roles"]) == ("token", ["submit"])
    assert me["expires_at"] is not None
    assert (await page.ask("DELETE", "/v1/session", headers=headers)).status_code == 204
    assert (await page.get("/v1/me", headers=headers))["by"] == "token", "there was none to end"


async def test_without_tokens_this_machine_needs_no_session(api: Caller) -> None:
    me = await api.get("/v1/me")
    assert (me["name"], me["by"], me["token_id"]) == ("local", "local", None)
    assert "admin" in me["roles"]
    refused = await api.refused("POST", "/v1/session", {"token": "fp_"})
    assert refused == (401, "unauthenticated")
    stale = {"cookie": f"fencepost_session=fps_{12 * '0'}_{48 * '0'}"}
    assert (await api.get("/v1/me", headers=stale))["by"] == "local", "of a store before"


@pytest.mark.parametrize("text", ["", "x", "fp_", f"fp_{12 * '0'}_{48 * '0'}", "fps_", "é" * 900])
async def test_what_is_no_token_opens_no_session(app: App, page: Caller, text: str) -> None:
    token(app)
    assert await page.refused("POST", "/v1/session", {"token": text}) == (401, "unauthenticated")
    assert not page.client.cookies


async def test_revoked_and_expired_tokens_are_refused_in_the_same_words(
    app: App, page: Caller
) -> None:
    revoked = token(app)
    app.tokens.revoke("ada")
    replies = [
        (await page.ask("POST", "/v1/session", {"token": text})).json()["detail"]
        for text in (revoked, f"fp_{12 * '0'}_{48 * '0'}")
    ]
    assert replies[0] == replies[1]


async def test_a_session_is_no_token_and_a_token_no_session(app: App, page: Caller) -> None:
    """What leaks from one place is of no use in the other."""
    text = token(app)
    await sign_in(page, text)
    (cookie,) = page.client.cookies.jar
    page.client.cookies.clear()
    for header in (
        {"authorization": f"Bearer {cookie.value}"},
        {"cookie": f"{cookie.name}={text}"},
        {"cookie": f"{cookie.name}={cookie.value}; {cookie.name}={cookie.value}"},
        {"cookie": f"{cookie.name}={(cookie.value or '')[:-1]}x"},
        {"cookie": f"{cookie.name}={cookie.value}", "authorization": "Bearer fp_forged"},
    ):
        assert await page.refused("GET", "/v1/me", headers=header) == (401, "unauthenticated")


CHANGES = [
    ("POST", "/v1/queues/mail/pause"),
    ("PUT", "/v1/limit"),
    ("PATCH", "/v1/jobs/0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"),
    ("DELETE", "/v1/dead-letters/0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"),
    ("DELETE", "/v1/session"),
]
BODIES = {"PUT": {"max_running": 3}, "PATCH": {"priority": 0}}
FOREIGN = [
    {},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "https://jobs.example"},
    {"origin": "https://evil.example"},
    {"origin": "https://jobs.example:8443"},
    {"origin": "https://jobs.example.evil"},
    {"origin": "null"},
]
PROOFS = [OWN, {"origin": "https://jobs.example"}, {**OWN, "origin": "https://jobs.example"}]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_change_without_a_proof_of_its_origin_is_refused(
    app: App, page: Caller, headers: dict[str, str]
) -> None:
    """A page elsewhere can make a browser send the cookie, and not these headers."""
    await sign_in(page, token(app))
    for method, path in CHANGES:
        refused = await page.refused(method, path, BODIES.get(method), headers=headers)
        assert refused == (403, "forbidden"), (method, path)
    assert (await page.get("/v1/me"))["by"] == "session"
    assert (await page.get("/v1/limit"))["max_running"] is None


@pytest.mark.parametrize("headers", PROOFS, ids=str)
async def test_a_change_from_our_own_page_is_done(
    app: App, page: Caller, headers: dict[str, str]
) -> None:
    await sign_in(page, token(app))
    done = await page.ask("PUT", "/v1/limit", {"max_running": 3}, headers=headers)
    assert (done.status_code, done.json()) == (200, {"max_running": 3})
    (action,) = app.audit.list(limit=1)
    assert (action.principal, action.action) == ("ada", "app.limit")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_elsewhere_reads_nothing(app: App, page: Caller, site: str) -> None:
    """Another port of this host is the same site for a browser, and gets the cookie sent."""
    await sign_in(page, token(app))
    refused = await page.refused("GET", "/v1/jobs", headers={"sec-fetch-site": site})
    assert refused == (403, "forbidden")
    assert (await page.get("/v1/jobs", headers={"sec-fetch-site": "none"}))["jobs"] == []


async def test_to_sign_out_ends_the_session_everywhere(app: App, page: Caller) -> None:
    await sign_in(page, token(app))
    (cookie,) = page.client.cookies.jar
    stolen = {"cookie": f"{cookie.name}={cookie.value}"}
    response = await page.ask("DELETE", "/v1/session", headers=OWN)
    assert response.status_code == 204
    assert "Max-Age=0" in response.headers["set-cookie"]
    assert not page.client.cookies
    assert await page.refused("GET", "/v1/me", headers=stolen) == (401, "unauthenticated")


async def test_a_session_has_the_rights_of_its_token_and_no_more(app: App, page: Caller) -> None:
    await sign_in(page, token(app, "read", queues=["mail"]))
    assert await page.refused("GET", "/v1/types") == (403, "forbidden")
    refused = await page.refused("POST", "/v1/queues/mail/pause", headers=OWN)
    assert refused == (403, "forbidden")


async def test_each_port_has_a_cookie_of_its_own(app: App) -> None:
    """Browsers do not tell ports apart, and a machine may have two servers."""
    async with browser(app, "http://localhost:8000") as client:
        response = await client.post("/v1/session", json={"token": token(app)})
        assert response.headers["set-cookie"].startswith("fencepost_session_8000=fps_")
        assert "Secure" not in response.headers["set-cookie"], "this is not https"
        assert (await client.get("/v1/me")).json()["by"] == "session"


async def test_below_a_path_the_cookie_is_for_that_path(app: App) -> None:
    site = Starlette(routes=[Mount("/queue", app.asgi())])
    transport = httpx.ASGITransport(app=site)
    async with httpx.AsyncClient(transport=transport, base_url="https://x.example") as client:
        response = await client.post("/queue/v1/session", json={"token": token(app)})
        assert "; Path=/queue;" in response.headers["set-cookie"]
        assert (await client.get("/queue/v1/me")).json()["by"] == "session"


class Timed:
    """A server whose clock is ours."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.app = App(store=MemoryStore(clock=self.clock))


async def test_a_session_ends_with_its_token_within_seconds() -> None:
    timed = Timed()
    async with browser(timed.app) as client:
        page = Caller(client)
        await sign_in(page, token(timed.app))
        assert (await page.get("/v1/me"))["by"] == "session"
        timed.app.tokens.revoke("ada")
        timed.clock.advance(TOKEN_REVOKED_SECONDS)
        assert await page.refused("GET", "/v1/me") == (401, "unauthenticated")


async def test_a_session_ends_by_itself_and_never_after_its_token() -> None:
    timed = Timed()
    async with browser(timed.app) as client:
        page = Caller(client)
        await sign_in(page, token(timed.app))
        timed.clock.advance(SESSION_SECONDS - 1)
        assert (await page.get("/v1/me"))["by"] == "session"
        timed.clock.advance(1)
        assert await page.refused("GET", "/v1/me") == (401, "unauthenticated")
        short = token(timed.app, expires="1h")
        response = await page.ask("POST", "/v1/session", {"token": short})
        assert "Max-Age=3600" in response.headers["set-cookie"]


async def test_a_stream_ends_when_its_session_does(app: App) -> None:
    """Through a real server: the connection is open while the token is revoked."""
    text = token(app)
    with serving(app, is_local=False) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            assert (await client.post("/v1/session", json={"token": text})).status_code == 200
            async with client.stream("GET", "/v1/stream") as stream:
                assert stream.status_code == 200
                app.tokens.revoke("ada")
                async for _ in stream.aiter_raw():
                    pass
            assert (await client.get("/v1/me")).status_code == 401


async def test_a_token_with_a_rate_has_one_for_its_sessions_too(app: App, page: Caller) -> None:
    await sign_in(page, token(app, rate=2))
    statuses = [(await page.ask("GET", "/v1/me")).status_code for _ in range(5)]
    assert 429 in statuses
