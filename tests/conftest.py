"""What every test shares: how property tests run, and an environment without surprises."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from fencepost.testing.clock import FakeClock

pytest_plugins = [
    "tests.servers.fixtures",
    "tests.servers.redis",
    "tests.collecting",
    "tests.thoroughness",
]

# An App in a test must never reach the database of the person who runs it.
for name in ("URL", "KEYS", "PLAIN", "WEBHOOK_SECRETS"):
    os.environ.pop(f"FENCEPOST_{name}", None)
os.environ.pop("DATABASE_URL", None)

# No deadline: a busy machine is not a bug. Examples are few by default because the suite is run
# often; `HYPOTHESIS_PROFILE=thorough make test` looks longer.
settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, print_blob=True
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)


@pytest.fixture(scope="session", autouse=True)
def runtime_folders() -> Iterator[Path]:
    """Where workers note their starts: not beside those of real workers."""
    with tempfile.TemporaryDirectory(prefix="fencepost-run-") as folder:
        os.environ["FENCEPOST_RUNTIME_DIR"] = folder
        yield Path(folder)
        del os.environ["FENCEPOST_RUNTIME_DIR"]


@pytest.fixture(autouse=True)
def runtime_folder(runtime_folders: Path) -> Iterator[None]:
    """One for each test: a worker that finds records of dead ones asks the store for their jobs."""
    # A worker makes the folder; most tests have none.
    os.environ["FENCEPOST_RUNTIME_DIR"] = str(runtime_folders / uuid4().hex)
    yield
    os.environ["FENCEPOST_RUNTIME_DIR"] = str(runtime_folders)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(params=["sqlite", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind that needs no server."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
