"""What a worker says about itself in the list of workers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.worker.support import eventually

import fencepost
from fencepost import App, ConfigurationError
from fencepost.worker.pipeline import LoopLag


@pytest.mark.parametrize(("options", "version"), [({}, "4f2c9d1"), ({"version": "7"}, "7")])
async def test_a_worker_tells_the_versions_of_its_code_and_is_gone_when_it_stops(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], version: str
) -> None:
    monkeypatch.setenv("FENCEPOST_APP_VERSION", "4f2c9d1")
    app = App("memory://")
    worker = app.worker(**options)
    run = asyncio.create_task(worker.aio.run())
    await eventually(lambda: any(each.is_leader for each in app.workers.list()))
    (info,) = app.workers.list()
    assert (info.version, info.fencepost_version) == (version, fencepost.__version__)
    worker.stop()
    await run
    (gone,) = app.workers.gone()
    assert (gone.id, gone.version, gone.has_stopped) == (worker.id, version, True)
    assert app.workers.list() == []


def test_a_version_is_short_text() -> None:
    app = App("memory://")
    for wrong in ("x" * 101, "a\nb", 7):
        with pytest.raises(ConfigurationError):
            app.worker(version=wrong)  # type: ignore[arg-type]


def test_the_worst_lag_is_told_once() -> None:
    lag = LoopLag()
    assert lag.take() is None
    for late in (0.01, 0.2504, 0.05):
        lag.note(late)
    assert lag.take() == 0.25
    assert lag.take() is None
