"""Keeps so many worker processes running: one that dies is replaced, a stop is passed on.

Children are started afresh, never forked: they share nothing with each other or with us. If we are
killed, they stop by themselves (see ``lifeline``).
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from fencepost.clock import Clock
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.worker.process.lifeline import Lifeline

REPLACE_CODE = 75
"""With this a process ends that wants another in its place: a thread in it could not be stopped."""
STEP_INTERVAL = 0.1
YOUNG = 60.0
"""A child that dies younger than this may die so again; its successor waits."""
DELAY_FIRST = 1.0
DELAY_MAX = 30.0


class Supervisor:
    """Runs *count* children of *command*."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        clock: Clock,
        stop_patience: float,
        is_burst: bool = False,
        own_arguments: Callable[[int], Sequence[str]] = lambda _: (),
    ) -> None:
        """*own_arguments* are for the child in each place, behind those of all."""
        self._clock = clock
        self._lifeline = Lifeline()
        commands = [[*command, *own_arguments(place)] for place in range(count)]
        self._slots = [ProcessSlot(each, self._lifeline, clock, is_burst) for each in commands]
        self._stop_patience = stop_patience
        self._signals: list[int] = []
        self._passed_on = 0
        self._kill_at: float | None = None

    def run(self) -> None:
        """Supervise until stopped or, in a burst, until every child is done."""
        with self._watching_signals():
            try:
                while self.step():
                    self._clock.sleep(STEP_INTERVAL)
            finally:
                self._lifeline.close()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Pass a signal on to every child, and replace none; from any thread or handler."""
        self._signals.append(number)

    def step(self) -> bool:
        """Pass signals on, replace what died; return False when nothing is left to do."""
        while self._passed_on < len(self._signals):
            self._pass_on(self._signals[self._passed_on])
            self._passed_on += 1
        is_stopping = bool(self._signals)
        if self._kill_at is not None and self._clock.monotonic() >= self._kill_at:
            self._kill_at = None
            for slot in self._slots:
                slot.send(signal.SIGKILL)
        # Every slot takes its step, also after one that goes on.
        going_on = [slot.step(is_stopping=is_stopping) for slot in self._slots]
        return any(going_on)

    def _pass_on(self, number: int) -> None:
        if self._kill_at is None:
            self._kill_at = self._clock.monotonic() + self._stop_patience
        for slot in self._slots:
            slot.send(number)

    @contextmanager
    def _watching_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.signal(n, self._on_signal) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.stop(number)


class ProcessSlot:
    """The place of one child: the child itself, or the time of its successor."""

    def __init__(
        self, command: Sequence[str], lifeline: Lifeline, clock: Clock, is_burst: bool
    ) -> None:
        self._command = command
        self._lifeline = lifeline
        self._clock = clock
        self._is_burst = is_burst
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_at: float | None = clock.monotonic()
        self._delay = 0.0

    @property
    def pid(self) -> int | None:
        """The child's process id, if there is a child."""
        return None if self._child is None else self._child.pid

    def send(self, number: int) -> None:
        """Pass a signal on, if there is a child."""
        if self._child is not None:
            self._child.send_signal(number)

    def step(self, *, is_stopping: bool) -> bool:
        """Start the child when it is time, notice its end; return False when the slot is done."""
        if self._child is not None:
            code = self._child.poll()
            if code is None:
                return True
            self._ended(code, is_stopping)
        if is_stopping or self._start_at is None:
            return False
        if self._clock.monotonic() >= self._start_at:
            self._start()
        return True

    def _start(self) -> None:
        self._child = self._lifeline.spawn(self._command)
        self._started_at = self._clock.monotonic()
        log(names.CHILD_STARTED, pid=self._child.pid)

    def _ended(self, code: int, is_stopping: bool) -> None:
        assert self._child is not None
        now = self._clock.monotonic()
        alive = now - self._started_at
        is_done = code == 0 and self._is_burst
        is_replaced = code == REPLACE_CODE
        if is_replaced:
            self._delay = 0.0
        elif alive < YOUNG:
            self._delay = min(max(self._delay * 2, DELAY_FIRST), DELAY_MAX)
        else:
            self._delay = 0.0
        self._start_at = None if is_done else now + self._delay
        if is_replaced:
            log(names.CHILD_REPLACED, pid=self._child.pid, seconds=alive)
        elif not is_done and not is_stopping:
            log(
                names.CHILD_DIED,
                level=logging.WARNING,
                pid=self._child.pid,
                code=code,
                seconds=alive,
                replaced_in=self._delay,
            )
        self._child = None
