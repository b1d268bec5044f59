"""A worker that is killed: the page of its job says so by itself, and shows the next lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect
from tests.cli.support import Command
from tests.dashboard.conftest import PATIENCE, visiting
from tests.dashboard.shop import open_shop
from tests.http.serving import serving

from fencepost import App, Retry

PROGRAM = """
import time

from fencepost import App

app = App()


@app.task(queue="fragile")
def hang() -> None:
    time.sleep(3600)
"""


def declare(app: App) -> Any:
    """Declare the task of the program on *app*, which only submits it."""
    again = Retry(max_attempts=5, initial_delay=0.1)

    @app.task(queue="fragile", lease_ttl=1, retry=again)
    def hang() -> None: ...

    return hang


def test_a_worker_that_is_killed_is_seen_without_a_reload(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with open_shop(tmp_path) as shop, serving(shop.app) as server:
        shop.start_worker()  # of other queues: it leads, and recovers what others lose
        job = declare(shop.app).submit()
        command = Command(tmp_path, shop.app.url)
        try:
            command.start("worker", "--queue", "fragile")
            with visiting(browser, server.url) as visit:
                page = visit.go(f"jobs/{job.id}", "s left")
                command.children[0].kill()
                lost = page.locator(".attempt").filter(has_text="Attempt 1")
                expect(lost).to_contain_text("lease expired", timeout=PATIENCE)
                expect(page.get_by_text("lost, lease ended")).to_be_visible()
                command.start("worker", "--queue", "fragile")
                expect(page.locator(".fenceno")).to_have_text("2", timeout=PATIENCE)
                expect(page.locator(".attempt").filter(has_text="fence 2")).to_be_visible()
        finally:
            for child in command.children:
                child.kill()
                child.communicate()
