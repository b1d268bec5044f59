"""The app that the worker processes of a benchmark run: as little handler as there can be."""

from __future__ import annotations

from typing import Any

from fencepost.app import App, TaskHandle
from fencepost.clock import SystemClock
from fencepost.store.interface.store import Store


class BenchApp:
    """An app with tasks that do nothing, and one that says when it was started."""

    def __init__(self, url: str, store: Store | None = None) -> None:
        self.app = App(url, store=store)
        clock = SystemClock()

        async def noop(number: int) -> None:
            """Decode an int, do nothing, give back None."""

        async def weighed(text: str) -> None:
            """Decode a text, do nothing."""

        async def started_at() -> int:
            return clock.now_us()

        self.noop: TaskHandle[[int], None] = self.app.task(noop)
        self.weighed: TaskHandle[[str], None] = self.app.task(weighed)
        self.started_at: TaskHandle[[], int] = self.app.task(started_at)

    def __enter__(self) -> BenchApp:
        return self

    def __exit__(self, *_: Any) -> None:
        self.app.close()
