"""A simulated process: some threads that live, stop and die together."""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine
from typing import Any

from lab.simulation.clock import SimulatedClock
from lab.simulation.history import Defect, History, Turn
from lab.simulation.loop import SimulatedLoop


class Process:
    """Can be killed, stopped and continued, at any await of anything that runs in it."""

    def __init__(
        self, name: str, outside: SimulatedLoop, clock: SimulatedClock, history: History
    ) -> None:
        self.name = name
        self.clock = clock
        self.history = history
        self._outside = outside
        self.is_alive = True
        self.is_stopped = False
        self.has_ended = False
        self.fuse: int | None = None
        """After so many more callbacks, something happens to the process."""
        self.on_death: list[Callable[[], None]] = []
        self._then: Callable[[], None] | None = None
        self._loops: list[SimulatedLoop] = []
        self.main = self.add_thread()

    def add_thread(self) -> SimulatedLoop:
        """Return a loop of its own, which runs beside the others."""
        loop = SimulatedLoop(self._outside.scheduler, self)
        loop.set_exception_handler(self._note_unhandled)
        if self.is_stopped:
            loop.hold()
        self._loops.append(loop)
        return loop

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run *main* in the first thread; the process ends when it does."""
        self._note("booted")
        self._program = main
        self._task = self.main.create_task(self._run(main))

    async def _run(self, main: Coroutine[Any, Any, None]) -> None:
        try:
            await main
        except Exception as error:  # noqa: BLE001 - the checker has to know of it
            self.history.add(Defect(self._outside.time(), f"{self.name} died of {error!r}"))
        self.has_ended = True
        self._note("ended")

    # What can happen to it.

    def kill(self) -> None:
        """End it as ``kill -9`` does: nothing of it ever runs again."""
        if self.is_alive and not self.has_ended:
            self.is_alive = False
            self._note("killed")
            for loop in self._loops:
                loop.hold()
            for tell in self.on_death:
                tell()

    def stop(self) -> None:
        """Let nothing of it run (SIGSTOP)."""
        if self.is_alive and not self.is_stopped and not self.has_ended:
            self.is_stopped = True
            self._note("stopped")
            for loop in self._loops:
                loop.hold()

    def resume(self) -> None:
        """Let it go on as if no time had passed (SIGCONT)."""
        if self.is_alive and self.is_stopped:
            self.is_stopped = False
            self._note("continued")
            for loop in self._loops:
                loop.let_go()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), which kills one that has not got so far as to listen."""
        if self.is_alive and not self.has_ended:
            self._note("terminated")
            if not self.main.signal(signal.SIGTERM):
                self.kill()

    def light_fuse(self, callbacks: int, then: Callable[[], None]) -> None:
        """Have *then* happen between two of its callbacks, so many from now."""
        self.fuse = callbacks
        self._then = then

    def burn(self) -> None:
        """One callback of the process has run while a fuse burns."""
        assert self.fuse is not None
        self.fuse -= 1
        if self.fuse <= 0 and self._then is not None:
            self.fuse = None
            self._then()

    def block(self, seconds: float) -> None:
        """Hold up the first thread only, as a handler does that does not await."""
        self._note("blocked")
        self.main.hold()
        self._outside.call_later(seconds, self._unblock)

    def _unblock(self) -> None:
        self._note("unblocked")
        self.main.let_go()

    def dispose(self) -> None:
        for loop in self._loops:
            loop.dispose()
        self._program.close()  # one that was killed before its first step

    def _note(self, what: str) -> None:
        self.history.add(Turn(self._outside.time(), self.name, what))

    def _note_unhandled(self, _: object, context: dict[str, Any]) -> None:
        text = f"{self.name}: {context.get('message')} {context.get('exception')!r}"
        if (task := context.get("task") or context.get("future")) is not None:
            text += f" in {task.get_coro().__qualname__}" if hasattr(task, "get_coro") else ""
        self.history.add(Defect(self._outside.time(), text))
