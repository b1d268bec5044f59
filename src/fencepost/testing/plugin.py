"""Fixtures for pytest, which finds this file by its entry point.

It is imported in every run of pytest on a machine that has Fencepost, used or not; so it loads
nothing but pytest until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.testing.clock import FakeClock
    from fencepost.testing.runner import Ran


@pytest.fixture
def fencepost_clock() -> FakeClock:
    """Return the clock of the other fixtures; it stands still until ``advance`` is called."""
    from fencepost.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def fencepost_memory(fencepost_clock: FakeClock) -> Iterator[Callable[[App], App]]:
    """Return a function that puts an app on a memory store until the test ends."""
    from fencepost.testing.store import memory_store

    with ExitStack() as stack:

        def put(app: App) -> App:
            stack.enter_context(memory_store(app, clock=fencepost_clock))
            return app

        yield put


@pytest.fixture
def fencepost_app(fencepost_memory: Callable[[App], App]) -> App:
    """Return an app without tasks, on a memory store; override it to return your own."""
    from fencepost.app import App

    return fencepost_memory(App("memory://"))


@pytest.fixture
def fencepost_drain(fencepost_app: App) -> BoundDrain:
    """Return ``drain`` for ``fencepost_app``: a function, and ``aio`` to be awaited."""
    return BoundDrain(fencepost_app)


class BoundDrain:
    """``drain`` for one app."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, **options: Any) -> list[Ran]:
        """Run what is due; see ``fencepost.testing.drain``."""
        from fencepost.testing.runner import drain

        return drain(self._app, **options)

    async def aio(self, **options: Any) -> list[Ran]:
        """Run what is due on the running event loop."""
        from fencepost.testing.runner import drain

        return await drain.aio(self._app, **options)
