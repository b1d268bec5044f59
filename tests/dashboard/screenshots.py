"""Pictures of every page, light and dark, into ``docs/images``: ``make screenshots``.

The shop of ``shop.py`` is filled and served, and its pages are photographed as they are. Only the
hour before is made up. The pages of ``docs`` use some of the pictures; commit those.
"""

from __future__ import annotations

import importlib
import linecache
import random
import tempfile
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.dashboard.browser import ROOT, open_browser
from tests.dashboard.conftest import EVERY_STATE
from tests.http.serving import serving

IMAGES = ROOT / "docs" / "images"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PAGES = {
    "overview": "",
    "jobs": "jobs",
    "job": "jobs/{refused}",
    "job-running": "jobs/{running}",
    "dead-letters": "dead-letters",
    "flow": "flows/{flow}",
    "queues": "queues",
    "workers": "workers",
    "crons": "crons",
    "events": "events",
    "tokens": "tokens",
    "audit": "audit",
    "system": "system",
}
ON_PHONES = ("overview", "jobs", "job")
HOUR = 3600
STEP = 10
RUSH = 200


def load_shop() -> Any:
    """Return ``shop.py`` under the name that a user's file would have in a traceback."""
    name = "shop/tasks.py"
    text = (Path(__file__).parent / "shop.py").read_text(encoding="utf-8")
    module = ModuleType("shop.tasks")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def record_hour(shop: Any) -> None:
    """Give the shop an hour behind it, through the store's own operation, if it has one."""
    store: Any = shop.app.store
    if not hasattr(store, "series"):
        return
    core: Any = importlib.import_module("fencepost.core.stats.series")
    row: Any = importlib.import_module("fencepost.store.interface.records.series").SeriesRow
    rng, rows, done, failed = random.Random(7), [], 0, 0
    now = core.aligned(shop.app.session.clock.now(), STEP)
    for place in range(HOUR // STEP):
        late = max(0, place - 250) / 25
        done += 5 + rng.randrange(5)
        failed += (rng.random() < 0.03) + int(late * rng.random() / 2)
        waits = [0.04 + rng.random() / 50] * 95 + [1.0 + late + rng.random() / 4] * 5
        runs = [0.15] * 95 + [2.4 + rng.random() / 2] * 5
        lane = core.LaneSample(
            queue="payments",
            type="capture_payment",
            enqueued=done + failed,
            completed=done,
            failed=failed,
            dead=failed // 3,
            cancelled=0,
            depth=int(40 * (1 + late)),
            running=6,
            wait=core.histogram(waits),
            run=core.histogram(runs),
        )
        sample = core.Sample([lane], {"payments": 1.0 + late})
        at = now - timedelta(seconds=HOUR - STEP * (place + 1))
        rows.append(row(at, core.encode_sample(sample)))
    store.run(store.series.record(STEP, rows, HOUR))


def take(browser: Any, url: str, ids: dict[str, str]) -> None:
    """Photograph all pages."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for size, names in ((WIDE, tuple(PAGES)), (PHONE, ON_PHONES)):
            context = browser.new_context(
                viewport=size,
                color_scheme=theme,
                reduced_motion="reduce",
                timezone_id="UTC",
                locale="en-US",
            )
            page = context.new_page()
            for name in names:
                page.goto(f"{url}/{PAGES[name].format(**ids)}")
                page.get_by_role("button", name="Live").wait_for()
                page.locator(".loading").first.wait_for(state="detached")
                page.wait_for_timeout(1200)  # charts and graphs are drawn by code that comes later
                kind = f"{theme}-phone" if size is PHONE else theme
                page.screenshot(path=IMAGES / f"dashboard-{name}-{kind}.png")
            context.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        load_shop().open_shop(Path(folder)) as shop,
        serving(shop.app) as server,
    ):
        refused = shop.refuse(server.url)
        shop.rush(RUSH)
        ids = {"refused": refused, **shop.fill()}
        shop.wait_for(EVERY_STATE)
        record_hour(shop)
        with open_browser() as browser:
            take(browser, server.url, ids)


if __name__ == "__main__":
    main()
