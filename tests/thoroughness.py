"""How much of the suite is run: all that fits into ten minutes, or all there is.

``FENCEPOST_TEST_FULL=1 make test`` runs every combination of stores, servers and colours.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any
from zlib import crc32

import pytest
from tests.servers.fixtures import postgres_sources

IS_FULL = bool(os.environ.get("FENCEPOST_TEST_FULL"))
EXAM_SHARE = 5
"""One of so many tests of the exam is run where another run of the whole exam says the most."""
SMALL_SHARE = 12
"""The same where two other runs do: Redis with partitions is Redis' own code behind a router."""
COLOUR_SHARE = 3
"""The same of the second colour of SQLite, whose runner every one of them goes through."""
MEMORY_SHARE = 5
"""The same of what is tested above the store on SQLite and on memory, which runs SQLite's plans."""
ABOVE_STORES = ("app", "client", "http")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out some that say little more than others, unless a test is asked for by its name.

    Which, the test's name says, so that all processes of a run agree.
    """
    if IS_FULL or any("::" in argument for argument in config.args):
        return
    dropped = {item for item in items if not _is_chosen(item)}
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]


def _is_exam(item: pytest.Item) -> bool:
    """Tell whether this is a test of `conformance`, whichever file runs it."""
    cls = getattr(item, "cls", None)
    return cls is not None and cls.__module__.split(".")[0] == "conformance"


def _is_chosen(item: pytest.Item) -> bool:
    if not _is_exam(item):
        return not _is_on_memory_too(item) or crc32(item.name.encode()) % MEMORY_SHARE == 0
    share = _share(item)
    if item.get_closest_marker("fills") is not None:
        return _colour(item) == "sync" and share != SMALL_SHARE
    return crc32(item.name.encode()) % share == 0


def _is_on_memory_too(item: pytest.Item) -> bool:
    """Tell whether this is a test on the memory store that is there on SQLite as well."""
    return _params(item).get("url") == "memory" and item.path.parts[-2] in ABOVE_STORES


def _share(item: pytest.Item) -> int:
    """Return of how many tests one is run: SQLite and PostgreSQL have all of the exam, once."""
    match "/".join(item.path.parts[-2:]):
        case "store/test_conformance.py" if _params(item).get("backend") == "memory":
            return EXAM_SHARE  # SQLite's plans, on no disk
        case "store/test_conformance.py" if _colour(item) == "async":
            return COLOUR_SHARE
        case "postgres/test_conformance.py" if (
            _params(item).get("setting", (None,))[0] in _other_servers()
        ):
            return EXAM_SHARE
        case "store/test_encrypted_conformance.py" | "postgres/test_encrypted.py":
            return EXAM_SHARE
        case "redis/test_conformance.py" | "redis/test_valkey.py":
            return EXAM_SHARE
        case "partitions/test_conformance.py":
            return SMALL_SHARE
        case _:
            return 1


@cache
def _other_servers() -> list[str]:
    """Return all but the first source of PostgreSQL; to look for them takes a while."""
    return postgres_sources()[1:]


def _colour(item: pytest.Item) -> object:
    params = _params(item)
    return params.get("colour") or params.get("setting", (None, None))[1]


def _params(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})
