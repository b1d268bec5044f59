"""Systems other than the one that runs the tests, as far as it can take their place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.platform.system import FORCED, SYSTEMS, System, current


@pytest.fixture(params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """Each system in turn, for this process and those that it starts."""
    monkeypatch.setenv(FORCED, request.param)
    current.cache_clear()
    yield current()
    monkeypatch.undo()
    current.cache_clear()


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """The system that has the least."""
    monkeypatch.setenv(FORCED, "windows")
    current.cache_clear()
    yield current()
    monkeypatch.undo()
    current.cache_clear()
