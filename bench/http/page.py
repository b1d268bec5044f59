"""How long a browser takes until a page of the dashboard is drawn, if there is a browser."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

from bench.browser import find_browser, started
from fencepost.dashboard.files import read_build

TIMEOUT = 30_000
# Nothing is loading any more, and charts and graphs, whose code comes later, are there.
DRAWN = """() => {
  const page = document.querySelector("main.page");
  if (!page || page.querySelector(".loading") || page.textContent.includes("Looking…")) return 0;
  const plots = [...page.querySelectorAll(".plot")];
  if (plots.some((plot) => !plot.querySelector("canvas"))) return 0;
  return page.querySelector("section, table, dl") ? performance.now() : 0;
}"""


class Drawn(NamedTuple):
    """From the first byte that was asked for until the page was drawn, in milliseconds."""

    median: float
    highest: float


def draw(
    url: str, token: str, addresses: Mapping[str, str], *, times: int
) -> dict[str, Drawn] | None:
    """Open each page some *times*; None without a browser, or without a dashboard to show in it.

    The first visit of each is not counted: it fills the caches of browser and server.
    """
    found = find_browser()
    if found is None or read_build() is None:
        return None
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        return None
    with started(playwright, *found) as browser:
        context = browser.new_context(
            viewport={"width": 1440, "height": 900},
            extra_http_headers={"authorization": f"Bearer {token}"},
        )
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        return {name: _time(page, f"{url}/{path}", times) for name, path in addresses.items()}


def _time(page: Any, address: str, count: int) -> Drawn:
    times: list[float] = []
    for _ in range(count + 1):
        page.goto(address)
        times.append(page.wait_for_function(DRAWN).json_value())
    return Drawn(median(times[1:]), max(times[1:]))
