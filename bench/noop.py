"""The app that the worker processes of a benchmark run: as little handler as there can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fencepost.app import App, TaskHandle
from fencepost.clock import SystemClock
from fencepost.store.interface.store import Store


class BenchApp:
    """An app with tasks that do nothing, one that says when it was started, and one that waits."""

    def __init__(
        self,
        url: str,
        store: Store | None = None,
        on_gathered: Callable[[], object] = lambda: None,
    ) -> None:
        self.app = App(url, store=store)
        clock = SystemClock()
        all_run = asyncio.Event()
        running = 0

        async def noop(number: int) -> None:
            """Decode an int, do nothing, give back None."""

        async def weighed(text: str) -> None:
            """Decode a text, do nothing."""

        async def started_at() -> int:
            return clock.now_us()

        async def gathered(count: int) -> None:
            """Wait until *count* of these run at once, in one process."""
            nonlocal running
            running += 1
            if running == count:
                on_gathered()
                all_run.set()
            await all_run.wait()

        self.noop: TaskHandle[[int], None] = self.app.task(noop)
        self.weighed: TaskHandle[[str], None] = self.app.task(weighed)
        self.started_at: TaskHandle[[], int] = self.app.task(started_at)
        self.gathered: TaskHandle[[int], None] = self.app.task(gathered)

    def __enter__(self) -> BenchApp:
        return self

    def __exit__(self, *_: Any) -> None:
        self.app.close()
