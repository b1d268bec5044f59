"""Keys of a terminal, as they are pressed, and changes of its size."""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Protocol

from fencepost.platform import signals
from fencepost.platform.system import current

KEY_INTERVAL = 0.05
ESCAPES = {"\xe0H": b"\x1b[A", "\xe0P": b"\x1b[B", "\0H": b"\x1b[A", "\0P": b"\x1b[B"}
"""The arrow keys as Windows names them, and as terminals do."""


class Keyboard(Protocol):
    """Where keys come from."""

    def wait(self, seconds: float) -> bytes | None:
        """Return the keys that were pressed, empty if the size changed; None after *seconds*.

        Raises EOFError when the terminal was closed.
        """
        ...

    def taken(self) -> AbstractContextManager[None]:
        """Get keys at once, and unseen, within the block."""
        ...


def keyboard() -> Keyboard:
    """Return the keyboard of the standard input; one without keys if that is no terminal."""
    return TerminalKeyboard() if current().has_signals else PolledKeyboard()


class TerminalKeyboard:
    """A terminal of POSIX: keys are read, and a signal says that its size has changed."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._changes, self._change = os.pipe()
        os.set_blocking(self._change, False)

    def wait(self, seconds: float) -> bytes | None:
        sources = [self._changes] if self._input is None else [self._changes, self._input]
        ready, _, _ = select.select(sources, (), (), max(seconds, 0.0))
        if self._changes in ready:
            os.read(self._changes, 4096)
        if self._input is None or self._input not in ready:
            return b"" if ready else None
        data = os.read(self._input, 4096)
        if not data:
            raise EOFError
        return data

    @contextmanager
    def taken(self) -> Iterator[None]:
        import termios
        import tty

        with ExitStack() as undo:
            undo.callback(os.close, self._changes)
            undo.callback(os.close, self._change)
            undo.enter_context(signals.handled(signals.RESIZED, self._resized))
            if self._input is not None:
                before = termios.tcgetattr(self._input)
                undo.callback(termios.tcsetattr, self._input, termios.TCSADRAIN, before)
                tty.setcbreak(self._input)
            yield

    def _resized(self, *_: object) -> None:
        with suppress(BlockingIOError):  # it will be noticed all the same
            os.write(self._change, b"r")


class PolledKeyboard:
    """A console of Windows: it is asked again and again; so is its size."""

    def __init__(self) -> None:
        self._console: Any = None
        if os.name == "nt" and sys.stdin.isatty():
            self._console = importlib.import_module("msvcrt")
        self._size = _size()

    def wait(self, seconds: float) -> bytes | None:
        never, left = threading.Event(), seconds
        while True:
            size, self._size = self._size, _size()
            if size != self._size:
                return b""
            if self._console is not None and self._console.kbhit():
                return self._key()
            if left <= 0:
                return None
            never.wait(min(KEY_INTERVAL, left))
            left -= KEY_INTERVAL

    def _key(self) -> bytes:
        key: str = self._console.getwch()
        if key in ("\0", "\xe0"):  # the first half of a key without a letter
            return ESCAPES.get(key + self._console.getwch(), b" ")
        if key == "\x03":
            signal.raise_signal(signal.SIGINT)
        return key.encode(errors="replace")

    @contextmanager
    def taken(self) -> Iterator[None]:
        yield


def _size() -> tuple[int, int]:
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stdout.fileno())
    return 0, 0
