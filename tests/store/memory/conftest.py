"""A memory store that goes by a clock of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore(clock=FakeClock())
    yield store
    store.close()
