"""Collect the tests without the garbage collector, and leave them out of all that it does later.

17,000 tests are some millions of objects that live until the end. Whenever the collector runs it
would go through them, and find nothing: more than half of the time of collecting, which each
process of a run spends, and half a second of every `gc.collect()` in a test.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Run around the whole of it, in each process of a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
