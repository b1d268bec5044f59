"""A server that goes away and comes back: what was shown stays, and is said to be old."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect
from tests.dashboard.conftest import visiting
from tests.dashboard.shop import open_shop
from tests.http.serving import serving


def test_what_was_shown_stays_while_the_server_is_away(browser: Any, tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        shop.fill()
        with serving(shop.app) as server:
            port = server.port
            url = server.url
            context = visiting(browser, url)
            visit = context.__enter__()
            page = visit.go("jobs", "transcode_video")
            page.get_by_role("button", name="Live").wait_for()
            shown = page.locator("tr[data-id]").count()
        page.get_by_text("The connection is lost").wait_for()
        page.get_by_role("button", name="Away").wait_for()
        assert page.locator("tr[data-id]").count() == shown
        page.keyboard.press("j")
        page.keyboard.press("x")
        expect(page.get_by_role("button", name="Cancel…")).to_be_disabled()
        page.keyboard.press("Escape")
        shop.tasks["transcode_video"].submit("late.mp4")
        with serving(shop.app, port=port):
            page.get_by_role("button", name="Live").wait_for()
            expect(page.get_by_text("The connection is lost")).to_have_count(0)
            page.mouse.move(0, 0)
            expect(page.locator("tr[data-id]")).to_have_count(shown + 1)
            context.__exit__(None, None, None)
