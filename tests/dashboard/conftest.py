"""A shop with real jobs behind a real server, and a real browser in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import open_browser
from tests.dashboard.shop import Shop, open_shop
from tests.http.serving import Served, serving

PATIENCE = 15_000
EVERY_STATE = ("completed", "failed", "dead_letter", "retrying", "running", "pending", "cancelled")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for one file: as long as it is open, this thread can run no other event loop."""
    with open_browser() as browser:
        yield browser


class Visit:
    """A tab that insists: no error of a script, no breach of the policy, nothing foreign."""

    def __init__(self, context: Any, url: str) -> None:
        self.context = context
        self.url = url
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message: Any) -> None:
        # A browser reports every refused request; those are what the page is made for.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def go(self, path: str, expect: str | None = None) -> Any:
        """Open *path*, and wait until *expect* is to be read there."""
        self.page.goto(f"{self.url}/{path}")
        if expect is not None:
            self.page.get_by_text(expect).filter(visible=True).first.wait_for()
        return self.page

    def await_request(self, path: str) -> None:
        """Return when the page has asked for *path* of the API."""
        url = f"{self.url}/v1/{path}"
        if url not in self.requests:
            self.page.wait_for_event("request", lambda request: request.url == url)

    def check(self) -> None:
        """Raise unless all that was seen was in order."""
        assert self.complaints == []
        foreign = [url for url in self.requests if not url.startswith((self.url, "blob:"))]
        assert foreign == []


@contextmanager
def visiting(browser: Any, url: str, **options: Any) -> Iterator[Visit]:
    """Open a tab in a profile of its own."""
    context = browser.new_context(
        **{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit = Visit(context, url)
    try:
        yield visit
        visit.check()
    finally:
        context.close()


class Scene:
    """A shop that is served, with the ids of some of its jobs."""

    def __init__(self, shop: Shop, server: Served, ids: dict[str, str]) -> None:
        self.shop = shop
        self.app = shop.app
        self.server = server
        self.url = server.url
        self.ids = ids


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    """Serve a shop whose jobs have come to every state."""
    with open_shop(folder) as shop:
        ids = shop.fill()
        shop.start_worker()
        shop.wait_for(EVERY_STATE)
        with serving(shop.app) as server:
            yield Scene(shop, server, ids)


@pytest.fixture(scope="module")
def scene(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_in(tmp_path_factory.mktemp("shop")) as scene:
        yield scene


@pytest.fixture
def visit(browser: Any, scene: Scene) -> Iterator[Visit]:
    """A tab on the shop, without a token: it has none."""
    with visiting(browser, scene.url) as visit:
        yield visit
