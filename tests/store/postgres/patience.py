"""Waiting for transactions of others on the server, which hold marks and lanes back.

Tests that need it are marked `postgres("quiet")`; a server that is given to the suite is not quiet.
"""

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
    pytest.fail("a transaction of somebody else never ended")
