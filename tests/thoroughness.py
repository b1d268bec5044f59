"""How much of the suite is run: all that fits into ten minutes, or all there is.

``FENCEPOST_TEST_FULL=1 make test`` runs every combination of stores, servers and colours.
"""

from __future__ import annotations

import os
from zlib import crc32

import pytest
from tests.servers.fixtures import postgres_sources

IS_FULL = bool(os.environ.get("FENCEPOST_TEST_FULL"))
EXAM_SHARE = 5
"""One of so many tests of the exam is run where another run of the whole exam says the most."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out some tests of the exam, for their time, unless a test is asked for by its name.

    Which, the test's name says, so that all processes of a run agree.
    """
    if IS_FULL or any("::" in argument for argument in config.args):
        return
    dropped = {
        item for item in items if _is_shortened(item) and crc32(item.name.encode()) % EXAM_SHARE
    }
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]


def _is_shortened(item: pytest.Item) -> bool:
    """Tell whether a share of this exam is enough: all of it is run on SQLite and PostgreSQL."""
    exam = "/".join(item.path.parts[-2:])
    params = getattr(getattr(item, "callspec", None), "params", {})
    match exam:
        case "store/test_conformance.py":
            return bool(params.get("backend") == "memory")  # SQLite's plans, on no disk
        case "postgres/test_conformance.py":
            return params.get("setting", (None,))[0] in postgres_sources()[1:]
        case "store/test_encrypted_conformance.py":
            return True
        case (
            "redis/test_conformance.py" | "redis/test_valkey.py" | "partitions/test_conformance.py"
        ):
            return True
        case _:
            return False
