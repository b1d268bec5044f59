"""A real Chromium: the machine's own, else the one that ``make browser`` gets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.dashboard.files import read_build

ROOT = Path(__file__).parent.parent.parent
FETCHED = ROOT / "build" / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A sandbox needs rights that containers lack; the rest keeps it from talking to its maker.
FLAGS = (
    *(
        "--no-sandbox",
        "--no-zygote",
        "--in-process-gpu",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-software-rasterizer", "--no-first-run"),
)


def find_browser() -> tuple[str, dict[str, str]] | None:
    """Return a program, and what it needs in its environment."""
    given = os.environ.get("FENCEPOST_CHROMIUM")
    for found in (given, *(shutil.which(name) for name in NAMES)):
        if found:
            return found, {}
    if not (FETCHED / "chromium").is_file():
        return None
    own = {"LD_LIBRARY_PATH": str(FETCHED / "lib"), "FONTCONFIG_PATH": str(FETCHED)}
    return str(FETCHED / "chromium"), own


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start the browser; skip the test if there is none, or nothing to show in it."""
    if read_build() is None:
        pytest.skip("the dashboard is not built: run `make ui`")
    found = find_browser()
    if found is None:
        pytest.skip("there is no Chromium: run `make browser`")
    playwright = pytest.importorskip("playwright.sync_api")
    program, own = found
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=list(FLAGS), env={**os.environ, **own}
        )
        try:
            yield browser
        finally:
            browser.close()
