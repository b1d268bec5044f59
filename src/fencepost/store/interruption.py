"""How a thread that runs a handler is stopped, and where it must not be.

``HandlerStopped`` is thrown into the thread (``PyThreadState_SetAsyncExc``): Python raises it
between two instructions of whatever the thread does then. Three promises:

- It is raised within the call or not at all. A thread serves one job after another; what was meant
  for one must not hit the next. Whether the call goes on is looked at, and the exception thrown,
  under one lock; at the end of the call, one that was thrown and not yet raised is taken back.
- It is not raised while the thread works for the store, where one thread commits for many. Then it
  waits, and is raised when the store has answered.
- It is not raised, as far as can be seen, in the middle of ``logging``, which takes its locks in a
  way that an exception can leave locked, for all threads.

A thread that waits in C (a sleep, a lock, a socket without a timeout) gets it when it returns to
Python, and not before.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from fencepost.core.bounds import FRAMES_MAX
from fencepost.errors import HandlerStopped

T = TypeVar("T")

_throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
_throw.argtypes = (ctypes.c_ulong, ctypes.py_object)
_throw.restype = ctypes.c_int


class _Thread(threading.local):
    call: Interruptible | None = None
    """The call that this thread runs, if it can be stopped."""


THREAD = _Thread()


class Interruptible:
    """One call in a thread; it can be stopped from any other, once."""

    def __init__(self) -> None:
        # Reentrant: if the exception is raised after the lock is taken and before the block that
        # releases it, the thread can still take it again and end.
        self._mutex = threading.RLock()
        self._ident: int | None = None
        self._is_wanted = False
        self._is_thrown = False
        self._is_held_off = False
        self._has_ended = False

    def run(self, function: Callable[[], T]) -> T:
        """Call *function* in this thread; raise HandlerStopped if it was stopped before."""
        try:
            try:
                self._begin()
                return function()
            finally:
                self._end()
        except HandlerStopped:
            # It may have been raised in `_end`. Only one is ever thrown, so none comes here.
            self._end()
            raise

    def stop(self) -> bool:
        """Throw, unless the call has ended; return False if that is not possible now.

        Then try again a little later. A second call does nothing.
        """
        if self._is_thrown:
            return True
        with self._mutex:
            self._is_wanted = True
            if self._ident is None or self._is_held_off or self._has_ended:
                return True  # raised as it begins, or as the store has answered, or too late
            if _is_logging(self._ident):
                return False
            self._is_thrown = True
            _throw(self._ident, HandlerStopped)
            return True

    def hold_off(self) -> None:
        """Prevent an exception from here on; one that was thrown before is raised here."""
        with self._mutex:
            self._is_held_off = True
        if self._is_thrown:
            _take_a_step()

    def let_in(self) -> None:
        """Undo ``hold_off``; raise HandlerStopped if ``stop`` was called meanwhile."""
        with self._mutex:
            self._is_held_off = False
            is_due = self._is_wanted and not self._is_thrown
            self._is_thrown = self._is_thrown or is_due
        if is_due:
            raise HandlerStopped

    @property
    def is_running(self) -> bool:
        """Whether the call has begun, and has not ended."""
        return self._ident is not None and not self._has_ended

    @property
    def is_held_off(self) -> bool:
        return self._is_held_off

    def _begin(self) -> None:
        with self._mutex:
            self._ident = threading.get_ident()
            is_stopped = self._is_thrown = self._is_wanted
        THREAD.call = self
        if is_stopped:
            raise HandlerStopped

    def _end(self) -> None:
        with self._mutex:
            self._has_ended = True
            if self._is_thrown and self._ident is not None:
                _throw(self._ident, ctypes.py_object())  # NULL takes back what was not yet raised
        THREAD.call = None


def undisturbed(function: Callable[[], T]) -> T:
    """Call *function* without ``HandlerStopped`` inside; it may be raised before or after it."""
    call = THREAD.call
    if call is None or call.is_held_off:
        return function()
    try:
        call.hold_off()
        return function()
    finally:
        call.let_in()


def _take_a_step() -> None:
    """Python looks for what was thrown at the start of every function."""


def _is_logging(ident: int) -> bool:
    """Return whether a thread is in the middle of writing to a log."""
    frame = sys._current_frames().get(ident)
    for _ in range(FRAMES_MAX):
        if frame is None:
            return False
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "logging":
            return True
        frame = frame.f_back
    return False
