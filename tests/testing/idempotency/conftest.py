"""An app that must not be touched, and a bank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.testing.idempotency.bank import Bank

from fencepost import App


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Return an app on a store that must never be touched."""
    path = tmp_path / "jobs.db"
    yield App(f"sqlite:///{path}")
    assert not path.exists()


@pytest.fixture
def bank() -> Bank:
    return Bank()
