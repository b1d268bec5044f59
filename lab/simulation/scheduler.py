"""Simulated time, and whose turn it is: the seed decides, and nothing else does.

Any number of event loops share one time. While a loop has something to do, time stands still; then
it jumps to the next timer. Within a loop callbacks run in their order, as asyncio promises; between
loops the seed draws, one callback at a time, so that every interleaving can happen.
"""

from __future__ import annotations

from asyncio.events import _set_running_loop
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.simulation.loop import Call, SimulatedLoop

STEPS_MAX = 200_000
"""Callbacks at one and the same instant; more of them means that somebody spins."""


class Deadlock(Exception):
    """Nothing is ready, and no timer will ever make anything ready."""


class Livelock(Exception):
    """Time does not pass: callbacks call for each other without end."""


class Scheduler:
    """Runs the callbacks of many loops in one order, which the seed decides."""

    def __init__(self, seed: int | str) -> None:
        self.time = 0.0
        self.steps = 0
        self.is_over = False
        """Set when there is nothing left to look for."""
        self._rng = Random(f"scheduler/{seed}")
        self._numbers = count()
        self._timers: list[tuple[float, int, Call]] = []
        self.runnable: list[SimulatedLoop] = []
        """The loops that have something to do, and that nobody holds up; they keep it so."""

    def add_timer(self, call: Call) -> None:
        # Two timers of one instant fire in the order in which they were set.
        heappush(self._timers, (call.time, next(self._numbers), call))

    def run(self) -> None:
        """Run until somebody says that it is over."""
        draw = self._rng.random
        runnable = self.runnable
        running: SimulatedLoop | None = None
        started_at = self.steps
        try:
            while not self.is_over:
                if not runnable:
                    self._pass_time()
                    started_at = self.steps
                    continue
                waiting = len(runnable)
                place = 0 if waiting == 1 else int(draw() * waiting)
                loop = runnable[place]
                call = loop.ready.popleft()
                if not loop.ready:
                    runnable[place] = runnable[-1]
                    runnable.pop()
                if loop is not running:
                    running = loop
                    _set_running_loop(loop)
                self.steps += 1
                call.make()
                process = loop.process
                if process is not None and process.fuse is not None:
                    process.burn()
                if self.steps - started_at > STEPS_MAX:
                    raise Livelock(f"{STEPS_MAX} callbacks at {self.time:.6f} s")
        finally:
            _set_running_loop(None)

    def _pass_time(self) -> None:
        """Jump to the next timer, and make ready all that fall due with it."""
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is left to wait for at {self.time:.6f} s")
        self.time = max(self.time, timers[0][0])
        while timers and timers[0][0] <= self.time:
            _, _, call = heappop(timers)
            if not call.is_cancelled:
                call.loop.fire(call)
