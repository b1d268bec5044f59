"""A store with encryption around it passes the same exam as one without."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.thoroughness import IS_FULL

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import Colour, MakeStore
from fencepost.core.encryption import EncryptionKey, KeyRing
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.store.wrappers.encrypted import encrypted
from fencepost.testing.clock import FakeClock

KEYS = KeyRing((EncryptionKey("k2", b"2" * 32), EncryptionKey("k1", b"1" * 32)))


# What is encrypted is so in either colour and around any store, by the same plans.
SETTINGS = [("memory", Colour.SYNC), ("sqlite", Colour.ASYNC)]


@pytest.fixture(params=SETTINGS if IS_FULL else SETTINGS[:1], ids="-".join)
def setting(request: pytest.FixtureRequest) -> tuple[str, Colour]:
    backend, colour = request.param
    return backend, Colour(colour)


@pytest.fixture  # type: ignore[no-redef]  # in place of the suite's own
def colour(setting: tuple[str, Colour]) -> Colour:
    return setting[1]


@pytest.fixture
def backend(setting: tuple[str, Colour]) -> str:
    return setting[0]


@pytest.fixture  # type: ignore[no-redef]  # in place of the suite's own
def is_durable(backend: str) -> bool:
    return backend != "memory"


@pytest.fixture
def make_store(backend: str, tmp_path: Path) -> MakeStore:
    def make(clock: FakeClock) -> Store:
        if backend == "memory":
            return encrypted(MemoryStore(url="memory://", clock=clock), KEYS)
        return encrypted(SqliteStore(str(tmp_path / "jobs.db"), clock=clock), KEYS)

    return make
