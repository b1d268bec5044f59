"""Pictures of every page, light and dark, into ``docs/images``: ``make screenshots``.

The shop of ``shop.py`` is filled and served, and its pages are photographed as they are. Only the
hour before is made up. The pages of ``docs`` use some of the pictures; commit those.
"""

from __future__ import annotations

import importlib
import linecache
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.dashboard.browser import open_browser
from tests.dashboard.conftest import EVERY_STATE
from tests.http.serving import serving

from bench.browser import ROOT

IMAGES = ROOT / "docs" / "images"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PAGES = {
    "overview": "",
    "job-running": "jobs/{running}",
    "jobs": "jobs?queue=payments",
    "job": "jobs/{refused}",
    "job-waiting": "jobs/{unserved}",
    "dead-letters": "dead-letters",
    "flows": "flows",
    "flow": "flows/{flow}",
    "queues": "queues",
    "workers": "workers",
    "crons": "crons",
    "events": "events",
    "tokens": "tokens",
    "audit": "audit",
    "system": "system",
}
ON_PHONES = ("overview", "jobs", "job", "dead-letters", "flow", "queues", "workers")
HOUR = 3600
STEP = 10
CHART_STEP = 30
RUSH = 200
LANES = {
    ("payments", "capture_payment"): (14, 0.03),
    ("default", "render_invoice"): (9, 0.005),
    ("mail", "send_receipt"): (6, 0.0),
    ("images", "resize_image"): (20, 0.0),
    ("reports", "sync_crm"): (3, 0.01),
    ("media", "transcode_video"): (0, 0.0),
}
"""How many jobs of a queue and type end in each step of the hour, and how often one fails."""


def load(file: str, name: str) -> Any:
    """Return a module of this folder under the *name* that a user's file has in a traceback."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    module = ModuleType(name.removesuffix(".py").replace("/", "."))
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
    rng, samples = random.Random(7), []
    counted = {name: [0, 0] for name in LANES}
    now = core.aligned(shop.app.session.clock.now(), STEP)
    for place in range(HOUR // STEP):
        late = max(0, place - 250) / 25
        lanes = []
        for (queue, type), (pace, failing) in LANES.items():
            total = counted[queue, type]
            total[0] += pace + rng.randrange(pace // 2 + 1)
            is_worse = failing > 0.02 and late * rng.random() / 2 > 1
            total[1] += (rng.random() < failing) + is_worse * rng.randrange(1, 5)
            slow = late if failing > 0.02 else 0.0
            waits = [0.04 + rng.random() / 50] * 95 + [0.3 + slow + rng.random() / 4] * 5
            runs = [0.15] * 95 + [2.4 + rng.random() / 2] * 5
            lane = core.LaneSample(
                queue=queue,
                type=type,
                enqueued=sum(total),
                completed=total[0],
                failed=total[1],
                dead=total[1] // 3,
                cancelled=0,
                depth=int(pace * (1 + slow) * (1 + rng.random()))
                if pace
                else max(0, 4 * place - 240),
                running=pace // 4,
                wait=core.histogram(waits),
                run=core.histogram(runs),
            )
            lanes.append(lane)
        sample = core.Sample(lanes, {"payments": 1.0 + late})
        at = now - timedelta(seconds=HOUR - STEP * (place + 1))
        samples.append((at, sample))
    # The chart of an hour reads merged samples.
    for step, some in ((STEP, samples), (CHART_STEP, _merged(core, samples))):
        rows = [row(at, core.encode_sample(each)) for at, each in some]
        store.run(store.series.record(step, rows, HOUR))


def _merged(core: Any, samples: list[tuple[datetime, Any]]) -> Iterator[tuple[datetime, Any]]:
    some = []
    for at, sample in samples:
        some.append(sample)
        if at == core.aligned(at, CHART_STEP):
            yield at, core.merged(some)
            some = []


def _depth(usual: float, place: int) -> int:
    """Return how many jobs wait; on a queue that nobody serves, more and more."""
    return int(usual) if usual else max(0, 4 * place - 240)


def take(browser: Any, url: str, token: str, ids: dict[str, str]) -> None:
    """Photograph all pages."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        contexts = [
            (f"{theme}{suffix}", names, stack.enter_context(_page(browser, token, theme, size)))
            for theme in ("light", "dark")
            for suffix, size, names in (("", WIDE, tuple(PAGES)), ("-phone", PHONE, ON_PHONES))
        ]
        for name in PAGES:  # one page after the other, while the hour before is still fresh
            for kind, names, page in contexts:
                if name in names:
                    page.goto(f"{url}/{PAGES[name].format(**ids)}")
                    page.get_by_role("button", name="Live").wait_for()
                    page.locator(".loading").first.wait_for(state="detached")
                    page.wait_for_timeout(1200)  # charts and graphs come later
                    page.screenshot(path=IMAGES / f"dashboard-{name}-{kind}.png")


@contextmanager
def _page(browser: Any, token: str, theme: str, size: dict[str, int]) -> Iterator[Any]:
    context = browser.new_context(
        viewport=size,
        color_scheme=theme,
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-US",
        extra_http_headers={"authorization": f"Bearer {token}"},
    )
    yield context.new_page()
    context.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        load("shop.py", "shop/tasks.py").open_shop(Path(folder)) as shop,
        serving(shop.app) as server,
    ):
        front = load("front_page.py", "shop/orders.py").FrontPage(shop)
        refused = shop.refuse(server.url)
        shop.rush(RUSH)
        ids = {"refused": refused, **shop.fill(), **front.fill()}
        try:
            shop.wait_for(EVERY_STATE)
            token = front.act(server.url)
            record_hour(shop)
            with open_browser() as browser:
                take(browser, server.url, token, ids)
        finally:
            front.close()


if __name__ == "__main__":
    main()
