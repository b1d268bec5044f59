"""Apps on both stores for the tests of the worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import App, Retry


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app whose jobs are tried again at once."""
    with App(url, retry=Retry(max_attempts=3, initial_delay=0.01)) as app:
        yield app


@pytest.fixture
def sqlite_app(tmp_path: Path) -> Iterator[App]:
    """As ``app``, on SQLite only: for what is of no use in one process, or concerns the file."""
    retry = Retry(max_attempts=3, initial_delay=0.01)
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=retry) as app:
        yield app


@pytest.fixture
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job start however late: on a busy machine some would be released, uncounted."""
    monkeypatch.setattr("fencepost.worker.run.inflight.START_WITHIN", 1000.0)
