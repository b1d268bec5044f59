"""A real Chromium: the machine's own, else the one that ``make browser`` gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.browser import find_browser, started
from fencepost.dashboard.files import read_build


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start the browser; skip the test if there is none, or nothing to show in it."""
    if read_build() is None:
        pytest.skip("the dashboard is not built: run `make ui`")
    found = find_browser()
    if found is None:
        pytest.skip("there is no Chromium: run `make browser`")
    playwright = pytest.importorskip("playwright.sync_api")
    with started(playwright, *found) as browser:
        yield browser
