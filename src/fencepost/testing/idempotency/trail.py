"""The points at which a handler can crash, in the order it passes them, and the crash at one."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from types import CodeType, FrameType
from typing import Any

import msgspec

DECORATOR_LINES_MAX = 50


class Crash(BaseException):
    """The simulated death of the process; not for handlers to catch."""


class Point(msgspec.Struct, frozen=True):
    """A place where a handler can crash: before or after something that others can observe."""

    number: int
    """Counted from 1, over all attempts of the job."""
    moment: str
    """Such as ``before charge``, ``after checkpoint``, ``after an await``, ``after its end``."""
    file: str
    line: int

    @property
    def source(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.moment} at {_short(self.file)}:{self.line}  {self.source}".rstrip()


class TrailMode(Enum):
    """What to do at a point."""

    IDLE = "idle"
    """Nothing: no handler runs."""
    RUNNING = "running"
    """Note it, and crash if it is the one."""
    DEAD = "dead"
    """Crash at every point: a dead process does nothing more, not in a ``finally`` either."""


class Trail:
    """Counts the points that a handler passes, and crashes it at one of them."""

    def __init__(self, function: Callable[..., Any], crash_at: int | None = None) -> None:
        self.points: list[Point] = []
        self.crashed_at: Point | None = None
        self._function = function
        self._crash_at = crash_at
        self._mode = TrailMode.IDLE
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        # Handlers may start threads.
        self._mutex = threading.Lock()

    @property
    def is_idle(self) -> bool:
        return self._mode is TrailMode.IDLE

    @property
    def is_dead(self) -> bool:
        return self._mode is TrailMode.DEAD

    def begin(self) -> None:
        """Start an attempt."""
        self._mode = TrailMode.RUNNING
        self._coroutine = None

    def follow(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Name the coroutine of the attempt, whose frames show where it waits."""
        self._coroutine = coroutine

    def end(self) -> bool:
        """End the attempt; return whether it crashed."""
        has_crashed = self.is_dead
        self._mode = TrailMode.IDLE
        return has_crashed

    def reach(self, moment: str) -> None:
        """Pass a point, or crash there."""
        with self._mutex:
            if self._mode is TrailMode.RUNNING:
                number = len(self.points) + 1
                point = Point(number, moment, *self._place())
                self.points.append(point)
                if number == self._crash_at:
                    self.crashed_at = point
                    self._mode = TrailMode.DEAD
            if self._mode is TrailMode.DEAD:
                raise Crash(moment)

    def _place(self) -> tuple[str, int]:
        """Return file and line of the innermost frame in the handler's own file."""
        code = _code_of(self._function)
        if code is None:
            return "?", 0
        frames = list(_frames_on_stack(code)) or list(_frames_waiting(self._coroutine))
        inner = next((f for f in frames if f.f_code.co_filename == code.co_filename), None)
        return code.co_filename, _first_line(code) if inner is None else inner.f_lineno


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None)


def _first_line(code: CodeType) -> int:
    """Return the line with ``def``, below the decorators."""
    for line in range(code.co_firstlineno, code.co_firstlineno + DECORATOR_LINES_MAX):
        if f"def {code.co_name}" in linecache.getline(code.co_filename, line):
            return line
    return code.co_firstlineno


def _frames_on_stack(code: CodeType) -> Iterator[FrameType]:
    """Yield the frames from here out to the handler's; none if it is not on this stack."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        if frame.f_code is code:
            yield from frames
            return
        frame = frame.f_back


def _frames_waiting(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a waiting coroutine, the innermost first."""
    frames: list[FrameType] = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        awaited = getattr(coroutine, "cr_await", None)
        coroutine = awaited or getattr(coroutine, "gi_yieldfrom", None)
    yield from reversed(frames)


def _short(file: str) -> str:
    """Return the path relative to the working directory, if the file is in it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") else relative
