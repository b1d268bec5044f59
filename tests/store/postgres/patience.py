"""Waiting for transactions of other tests, which share the server and hold marks and lanes back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

PATIENCE = 60.0


def patiently() -> Iterator[None]:
    """Let something be tried again and again; fail if it never succeeds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)
    pytest.fail("a transaction of another test never ended")
