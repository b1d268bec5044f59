"""The page and its files over HTTP: what is answered where, with which headers, and what is not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from fencepost import App
from fencepost.dashboard import files, pages
from fencepost.dashboard.pages import ASSETS, PAGES, POLICY
from fencepost.http import asgi
from fencepost.http.routes import ROUTES

PAGE = """<!doctype html><html><head>
<script type="module" src="./assets/index-abc.js"></script>
<link rel="stylesheet" href="./assets/index-abc.css"></head><body></body></html>
"""
SCRIPT = "console.log('a dashboard')\n" * 100


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of the dashboard: what a checkout may not have."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "assets" / "index-abc.js").write_text(SCRIPT)
    (tmp_path / "assets" / "index-abc.css").write_text("body { margin: 0 }")
    (tmp_path / "assets" / "notes.txt").write_text("not served")
    monkeypatch.setattr(pages, "read_build", lambda: files.read_build(tmp_path))
    return tmp_path


@pytest.fixture
async def client(build: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A stranger: no token, and a name that is not this machine's."""
    with App("memory://") as app:
        transport = httpx.ASGITransport(app=asgi(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://far.example") as client:
            yield client


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_needs_no_token_and_forbids_what_it_does_not_need(
    client: httpx.AsyncClient, path: str
) -> None:
    response = await client.get(path.replace("{id}", "6f0c"))
    assert response.status_code == 200
    headers = response.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-request-id"]
    up = "../" if path.count("/") > 1 else "./"
    links = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert links == [f"{up}assets/index-abc.js", f"{up}assets/index-abc.css"]
    for link in links:
        file = await client.get(str(response.url.join(link)))
        assert file.status_code == 200


def test_the_policy_allows_neither_inline_code_nor_strangers() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    others = {value for name, value in rules.items() if value != "'none'"}
    assert others == {"'self'"}


async def test_a_file_is_kept_for_good_and_sent_compressed(client: httpx.AsyncClient) -> None:
    response = await client.get("/assets/index-abc.js")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.text == SCRIPT
    assert int(response.headers["content-length"]) < len(SCRIPT) / 10
    plain = await client.get("/assets/index-abc.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == SCRIPT


@pytest.mark.parametrize(
    "path",
    [
        *("/assets/none.js", "/assets/notes.txt", "/assets/", "/assets/../index.html"),
        *("/assets/..%2findex.html", "/assets/%2e%2e%5cfiles.py", "/assets/index-abc.js/x"),
        *(
            "/index.html",
            "/jobs/",
            "/jobs/a/b",
            "/jobs%2fabc",
            "/jobs%0a",
            "/job",
            "/v1",
            "/v2/jobs",
        ),
    ],
)
async def test_whatever_else_is_asked_for_is_not_there(
    client: httpx.AsyncClient, path: str
) -> None:
    response = await client.get(path)
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


@pytest.mark.parametrize("path", [*PAGES, ASSETS])
async def test_a_page_can_only_be_read(client: httpx.AsyncClient, path: str) -> None:
    path = path.replace("{id}", "6f0c").replace("{name}", "index-abc.js")
    head = await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = await client.request(method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"


async def test_data_still_needs_a_token(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/jobs")).status_code == 401


def test_no_page_is_in_the_way_of_a_route() -> None:
    """Of the API: all its paths are elsewhere, so that none is ever answered with a page."""
    first = {route.path.split("/")[1] for route in ROUTES}
    assert first.isdisjoint(path.split("/")[1] for path in (*PAGES, ASSETS))


async def test_it_is_left_out_where_it_is_not_wanted(build: Path) -> None:
    with App("memory://") as app:
        transport = httpx.ASGITransport(app=app.asgi(dashboard=False))
        async with httpx.AsyncClient(transport=transport, base_url="http://far.example") as client:
            for path in ("/", "/jobs", "/assets/index-abc.js"):
                assert (await client.get(path)).status_code == 404
            assert (await client.get("/health/live")).status_code == 200


async def test_it_works_below_a_path(build: Path) -> None:
    with App("memory://") as app:
        site = Starlette(routes=[Mount("/queue", app.asgi())])
        transport = httpx.ASGITransport(app=site)
        async with httpx.AsyncClient(transport=transport, base_url="http://far.example") as client:
            for path in ("/queue/", "/queue/jobs", "/queue/jobs/6f0c"):
                response = await client.get(path)
                link = re.findall(r'src="([^"]+)"', response.text)[0]
                url = response.url.join(link)
                assert url.path == "/queue/assets/index-abc.js"
                assert (await client.get(str(url))).text == SCRIPT


async def test_a_checkout_without_a_build_says_how_to_make_one(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "read_build", lambda: files.read_build(tmp_path / "none"))
    for path, up in (("/", "./"), ("/jobs/6f0c", "../")):
        response = await client.get(path)
        assert response.status_code == 200
        assert "<code>make ui</code>" in response.text
        assert f'href="{up}openapi.json"' in response.text
        assert response.headers["content-security-policy"] == POLICY
    assert (await client.get("/assets/index-abc.js")).status_code == 404
