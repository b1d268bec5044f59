"""A server or store that goes away and comes back: what was shown stays, and says how old it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect
from tests.dashboard.conftest import PATIENCE, visiting
from tests.dashboard.shop import open_shop
from tests.http.serving import serving
from tests.servers.postgres import PostgresServer

from fencepost import App


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


def test_a_store_that_is_away_is_told_of_and_what_was_shown_stays(browser: Any) -> None:
    """The server answers, and its store does not: on PostgreSQL, which alone can be away."""
    with PostgresServer() as postgres, App(postgres.create_database("jobs")) as app:
        app.migrate()
        task = app.task(name="work", queue="media")(lambda: None)
        task.submit()
        with serving(app) as server, visiting(browser, server.url) as visit:
            page = visit.go("queues", "media")
            page.get_by_role("button", name="Live").wait_for()
            postgres.stop()
            try:
                page.get_by_text("the store does not answer").first.wait_for(timeout=PATIENCE * 2)
                page.get_by_text("media").filter(visible=True).first.wait_for()
            finally:
                postgres.start()
            expect(page.get_by_text("the store does not answer")).to_have_count(0, timeout=40_000)
            task.submit()
            row = page.get_by_role("row").filter(has_text="media").first
            expect(row.locator("[data-label=waiting]")).to_have_text("2", timeout=PATIENCE)
