"""Keeps a number of worker processes running: replaces those that die, and passes signals on.

Children are started afresh, never forked: they share nothing with each other or with us. If we are
killed, they stop by themselves: see ``Lifeline``.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fencepost.clock import Clock
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.platform.processes import FamilyPipe, detach_input
from fencepost.platform.signals import STOPPING, handled
from fencepost.worker.retirement import REPLACE_CODE

STEP_INTERVAL = 0.1
YOUNG = 60.0
"""Seconds. After a child that dies sooner than this, the next one is started with a delay."""
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
        """*own_arguments* are added to the command of the child in each place."""
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
        """Pass a signal on to every child, and replace none; from any thread or signal handler."""
        self._signals.append(number)

    def step(self) -> bool:
        """Pass signals on, replace children that died; return False when all is done."""
        while self._passed_on < len(self._signals):
            if self._kill_at is None:
                self._kill_at = self._clock.monotonic() + self._stop_patience
            for slot in self._slots:
                slot.send(self._signals[self._passed_on])
            self._passed_on += 1
        is_stopping = bool(self._signals)
        if self._kill_at is not None and self._clock.monotonic() >= self._kill_at:
            self._kill_at = None
            for slot in self._slots:
                slot.kill()
        # Every slot takes its step, also after one that goes on.
        going_on = [slot.step(is_stopping=is_stopping) for slot in self._slots]
        return any(going_on)

    @contextmanager
    def _watching_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with handled(STOPPING, lambda number, _: self.stop(number)):
            yield


class ProcessSlot:
    """The place of one child: the child itself, or the time to start the next."""

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

    def kill(self) -> None:
        """End the child at once, if there is one."""
        if self._child is not None:
            self._child.kill()

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
        is_hasty = alive < YOUNG and not is_replaced
        self._delay = min(max(self._delay * 2, DELAY_FIRST), DELAY_MAX) if is_hasty else 0.0
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


class Lifeline:
    """Starts children that end with this process, even if it is killed with SIGKILL."""

    def __init__(self) -> None:
        self._pipe = FamilyPipe()

    def spawn(
        self, command: Sequence[str], *, fds: Sequence[int] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a process in its own group, so that Ctrl-C reaches it only through us.

        It inherits *fds*.
        """
        return self._pipe.start(command, option="--lifeline", fds=fds, **options)

    def close(self) -> None:
        self._pipe.close()


def watch_lifeline(fd: int, *, stop: Callable[[], None], clock: Clock, patience: float) -> None:
    """In a child: call *stop* when the parent is gone, and end the process if that hangs.

    Call it as well for each byte, which the parent sends where it has no signals.
    """
    own = detach_input(fd)

    def wait() -> None:
        while os.read(own, 1):
            stop()
        stop()
        clock.sleep(patience)
        os._exit(1)

    threading.Thread(target=wait, name="fencepost-lifeline", daemon=True).start()
