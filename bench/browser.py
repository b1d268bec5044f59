"""A Chromium, for what only a browser can measure or test: the machine's own, or that of
``make browser``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
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
def started(playwright: Any, program: str, own: dict[str, str]) -> Iterator[Any]:
    """Start *program* by *playwright*, and close it at the end."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=list(FLAGS), env={**os.environ, **own}
        )
        try:
            yield browser
        finally:
            browser.close()
