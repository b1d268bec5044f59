"""Whose event loop a worker may hold up: its own, while idle; never somebody else's."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from fencepost import App
from fencepost.store.plan import Operation


@pytest.mark.parametrize("owns_loop", [True, False])
def test_a_worker_on_somebody_elses_loop_never_blocks_it_with_a_claim(
    monkeypatch: pytest.MonkeyPatch, owns_loop: bool
) -> None:
    """A locked database would hold up all that the loop serves, for as long as it is locked."""
    app = App("memory://")

    @app.task
    async def double(x: int) -> int:
        return 2 * x

    job = double.submit(21)
    blocking: list[str] = []
    run = app.store.run

    def recorded(operation: Operation[Any]) -> Any:
        blocking.append(operation.name)
        return run(operation)

    monkeypatch.setattr(app.store, "run", recorded)
    if owns_loop:
        app.worker().run(until_idle=True)
    else:
        asyncio.run(app.worker().aio.run(until_idle=True))
    assert ("claim" in blocking) == owns_loop
    assert job.result() == 42


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_worker_runs_on_uvloop_if_it_is_installed(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)

    @sqlite_app.task
    async def loop_of() -> str:
        return type(asyncio.get_running_loop()).__module__

    job = loop_of.submit()
    sqlite_app.worker().run(until_idle=True)
    assert ("uvloop" in job.result(5)) is is_installed
