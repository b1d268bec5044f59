"""An event loop in simulated time: one thread of a simulated process.

Product code runs on it unchanged: it asks for the running loop, makes tasks, sleeps, shields and
times out, and cannot tell. A loop that is held gets no turns: that is a process that was stopped,
a handler that blocks its thread or, held for ever, a process that was killed. Nothing of a held
loop is let go of, so no ``finally`` of a killed process ever runs.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from lab.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from lab.simulation.process import Process

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLOSES_MAX = 20
"""How often a coroutine is asked to end; each ``finally`` that awaits takes one."""


class Call(asyncio.TimerHandle):
    """A callback that waits for its turn: asyncio's handle, without what costs time and is unused.

    Two thirds of a simulation are such calls, so they are made as cheap as Python lets them be.
    """

    __slots__ = ("given", "is_cancelled", "loop", "make_it", "surroundings", "time")

    def __init__(
        self,
        loop: SimulatedLoop,
        callback: Callable[..., object],
        given: tuple[Any, ...],
        context: Context | None,
        when: float,
    ) -> None:
        self.loop = loop
        self.make_it = callback
        self.given = given
        self.surroundings = copy_context() if context is None else context
        self.is_cancelled = False
        self.time = when

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time

    def make(self) -> None:
        """Call what is to be called, unless that was called off."""
        if self.is_cancelled:
            return
        try:
            self.surroundings.run(self.make_it, *self.given)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does: it is told, and goes on
            message = f"exception in {self.make_it!r}"
            self.loop.call_exception_handler({"message": message, "exception": error})

    def __repr__(self) -> str:
        return f"<Call {self.make_it!r} at {self.time:.6f}>"


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop whose turns a Scheduler gives out."""

    def __init__(self, scheduler: Scheduler, process: Process | None = None) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.process = process
        self.ready: deque[Call] = deque()
        self._late: list[Call] = []
        """Timers that fired while the loop was held."""
        self._holds = 0
        self._signals: dict[int, Callable[[], object]] = {}

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.scheduler.time

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        scheduler = self.scheduler
        call = Call(self, callback, args, context, scheduler.time)
        if not self.ready and not self._holds:
            scheduler.runnable.append(self)
        self.ready.append(call)
        return call

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        scheduler = self.scheduler
        call = Call(self, callback, args, context, scheduler.time + delay)
        scheduler.add_timer(call)
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        call = Call(self, callback, args, context, when)
        self.scheduler.add_timer(call)
        return call

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        shown = None if name is None else str(name)
        return asyncio.Task(coro, loop=self, name=shown, context=context)

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self._signals[sig] = partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.pop(sig, None) is not None

    # What the simulation does with one.

    def signal(self, number: int) -> bool:
        """Deliver a signal; False if nobody has asked for it."""
        callback = self._signals.get(number)
        if callback is None:
            return False
        self.call_soon(callback)
        return True

    def fire(self, call: Call) -> None:
        """A timer is due; a process that is suspended finds it later."""
        if self._holds:
            self._late.append(call)
            return
        if not self.ready:
            self.scheduler.runnable.append(self)
        self.ready.append(call)

    def hold(self) -> None:
        """Give it no more turns, until it is let go as often as it was held."""
        if not self._holds and self.ready:
            self.scheduler.runnable.remove(self)
        self._holds += 1

    def let_go(self) -> None:
        self._holds -= 1
        if self._holds:
            return
        self.ready.extend(self._late)
        self._late.clear()
        if self.ready:
            self.scheduler.runnable.append(self)

    def dispose(self) -> None:
        """End what is left of a simulation that is over, so that nothing complains of it later."""
        self.set_exception_handler(lambda _, __: None)
        # A task whose loop gets no turns cannot be cancelled. One that ends may make others.
        ended: set[asyncio.Task[Any]] = set()
        _set_running_loop(self)
        while left := asyncio.all_tasks(self) - ended:
            for task in left:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
                _close(task.get_coro())
            ended |= left
        _set_running_loop(None)
        self.ready.clear()
        self._late.clear()
        self.close()


def _close(coroutine: Any) -> None:
    for _ in range(CLOSES_MAX):
        try:
            coroutine.close()
        except RuntimeError:  # a finally that awaits; or it is this very coroutine that runs
            continue
        except BaseException:  # noqa: BLE001 - it is over, however it ends
            return
        return
