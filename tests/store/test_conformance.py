"""The stores that come with Fencepost pass the exam, in both colours."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import MakeStore
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock

MEMORY = Path("/dev/shm")


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture  # type: ignore[no-redef]  # in place of the suite's own
def is_durable(backend: str) -> bool:
    return backend != "memory"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store without jobs, to be copied: most tests are shorter than making its tables."""
    path = tmp_path_factory.mktemp("sqlite") / "jobs.db"
    SqliteStore(str(path), clock=FakeClock()).close()
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder, in memory where that is possible: thousands of tests wait for it."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="fencepost-", dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture
def make_store(backend: str, empty_database: Path, folder: Path) -> MakeStore:
    path = folder / "jobs.db"
    if backend == "sqlite":
        shutil.copy(empty_database, path)

    def make(clock: FakeClock) -> Store:
        if backend == "memory":
            return MemoryStore(url="memory://", clock=clock)
        return SqliteStore(str(path), clock=clock)

    return make
