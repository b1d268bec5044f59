"""Time that passes only when nobody has anything to do, so that a run lasts as long as its work.

The clock is the loop's: everything that waits, waits until it is moved, and it is moved to the
next timer as soon as nothing else is left. Nothing here runs beside the loop, so that a run
repeats exactly.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fencepost.testing.clock import FakeClock
from fencepost.worker.run.heartbeater import BEATS_PER_TTL, Heartbeater

T = TypeVar("T")

INSTANT = 0.000_001
SECONDS_MAX = 900.0
"""Of the clock's time; a scenario that lasts longer goes round in circles."""


class StuckError(Exception):
    """Nothing is left that could happen, or it never ends."""


class LoopClock(FakeClock):
    """A clock that its loop moves."""

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))  # on a loop whose time is this clock's


class _Idle(selectors.SelectSelector):
    """Waits by moving the clock: with everything in one thread, nothing else can come."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None:
            raise StuckError("everybody waits, and nobody for a time")
        if self._clock.monotonic() > SECONDS_MAX:
            raise StuckError(f"not at an end after {SECONDS_MAX:g} s")
        self._clock.advance(max(timeout, INSTANT))
        return []


class Loop(asyncio.SelectorEventLoop):
    """An event loop on a clock that it moves itself."""

    def __init__(self, clock: LoopClock) -> None:
        self._lab_clock = clock
        super().__init__(_Idle(clock))

    def time(self) -> float:
        return self._lab_clock.monotonic()

    def add_signal_handler(  # type: ignore[override]  # the arguments are not looked at
        self, sig: int, callback: Any, *args: Any
    ) -> None:
        """Refuse, as loops do that have no signals: those are the lab's own."""
        raise NotImplementedError

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    def run_in_executor(  # type: ignore[override]  # the arguments are not looked at
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> Any:
        """Call *func* here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)
        return future


def run_on(clock: LoopClock, main: Coroutine[Any, Any, T]) -> T:
    """Run *main* to its end in the time of *clock*."""
    with asyncio.Runner(loop_factory=lambda: Loop(clock)) as runner:
        return runner.run(main)


class LoopHeartbeater(Heartbeater):
    """The product's heartbeater, on the loop rather than in a thread of its own."""

    def start(self) -> None:
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._beat_here())

    def stop(self) -> None:
        self._task.cancel()

    def wake(self) -> None:
        self._news.set()

    async def _beat_here(self) -> None:
        while True:
            pause = self.step()
            self.shortest_ttl = pause * BEATS_PER_TTL
            self._news.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                continue
