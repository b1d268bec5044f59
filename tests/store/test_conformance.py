"""The stores that come with Fencepost pass the exam, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import MakeStore
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture  # type: ignore[no-redef]  # in place of the suite's own
def is_durable(backend: str) -> bool:
    return backend != "memory"


@pytest.fixture
def make_store(backend: str, tmp_path: Path) -> MakeStore:
    def make(clock: FakeClock) -> Store:
        if backend == "memory":
            return MemoryStore(url="memory://", clock=clock)
        return SqliteStore(str(tmp_path / "jobs.db"), clock=clock)

    return make
