"""``app.asgi()`` below a prefix of other sites: the page finds its files, stream and API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.dashboard.conftest import visiting
from tests.dashboard.shop import Shop, open_shop
from tests.http.serving import serving

from fencepost import App
from fencepost.fastapi import mount

PREFIX = "/ops/queue"


def in_starlette(app: App) -> tuple[Any, str]:
    return Starlette(routes=[Mount(PREFIX, app.asgi())]), ""


def in_fastapi(app: App) -> tuple[Any, str]:
    site = FastAPI()
    mount(site, app, PREFIX)
    return site, "/docs"


def in_django(app: App) -> tuple[Any, str]:
    """As docs/django.md has it: a router in front of the project's own ASGI application."""
    from tests.servers.django import configure

    configure()
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    settings.ALLOWED_HOSTS = ["testserver", "127.0.0.1"]
    routes = [Mount(PREFIX, app.asgi()), Mount("/", get_asgi_application())]
    return Starlette(routes=routes), "/admin/login/"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as shop:
        shop.fill()
        shop.start_worker()
        yield shop


@pytest.mark.parametrize("build", [in_starlette, in_fastapi, in_django])
def test_a_dashboard_below_a_prefix_signs_in_lives_and_acts(
    browser: Any, shop: Shop, build: Callable[[App], tuple[Any, str]]
) -> None:
    token = shop.app.tokens.create("ops", roles=["read", "operate"]).text
    site, own_page = build(shop.app)
    with serving(site) as server, visiting(browser, server.url + PREFIX) as visit:
        page = visit.page
        page.goto(f"{server.url}{PREFIX}/jobs?type=thank")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Live").wait_for()
        expect(page.locator("tr[data-id]")).to_have_count(1)
        shop.app.event("order.paid").send(order=7)
        expect(page.locator("tr[data-id]")).to_have_count(2, timeout=15_000)
        page.locator("tr[data-id] a").first.click()
        page.wait_for_url(f"**{PREFIX}/jobs/*")
        page.reload()
        page.get_by_text("Completed on attempt 1").wait_for()
        page.goto(f"{server.url}{PREFIX}/queues")
        row = page.get_by_role("row").filter(has_text="media").first
        row.get_by_role("button", name="Pause").click()
        page.get_by_text("Queue media is paused.").wait_for()
        assert [queue.name for queue in shop.app.queues.list() if queue.is_paused] == ["media"]
        visit.check()  # nothing was asked for outside of the prefix
        if own_page:
            assert page.request.get(server.url + own_page).status == 200
