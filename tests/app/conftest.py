"""Apps on both stores for the tests of the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import App


@pytest.fixture
def app(url: str) -> Iterator[App]:
    with App(url) as app:
        yield app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where ``sqlite_app`` keeps its jobs."""
    return tmp_path / "jobs.db"


@pytest.fixture
def sqlite_app(path: Path) -> Iterator[App]:
    """An app on SQLite only: for what is of no use in one process, or concerns the file."""
    with App(f"sqlite:///{path}") as app:
        yield app
