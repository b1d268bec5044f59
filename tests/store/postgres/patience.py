"""Waiting for transactions of others on the server, which hold marks and lanes back.

Tests that need it are marked `postgres("quiet")`; a server that is given to the suite is not quiet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

PATIENCE = 60.0
OPEN = """
select pid, datname, state, backend_xid, backend_xmin, wait_event, clock_timestamp() - xact_start,
  query
from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()
"""


def patiently(url: str) -> Iterator[None]:
    """Let something be tried again and again; if it never succeeds, fail and say what is open."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)
    with psycopg.connect(url) as connection:
        found = connection.execute(OPEN).fetchall()
    pytest.fail(f"this never came about; transactions that are open on the server: {found}")
