"""Signals that stop a process, whichever of them this system has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fencepost.platform.system import current


def _present(*names: str) -> tuple[int, ...]:
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


STOPPING = _present("SIGTERM", "SIGINT", "SIGBREAK")
"""What stops a process that is asked to; the last is Ctrl-Break, and what Windows has to send."""
INTERRUPTING = (*STOPPING, *_present("SIGHUP"))
"""The same for a command at a terminal, which may be closed."""
RESIZED = _present("SIGWINCH")
"""What a terminal sends when its size has changed."""


def watch(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call *callback* on the loop for each signal that stops; in the main thread.

    The loop itself does it where it can; else Python calls us between two of its instructions, and
    we wake the loop.
    """
    for number in STOPPING:
        if current().has_signals:
            with suppress(NotImplementedError):  # some loops of others
                loop.add_signal_handler(number, callback)
        else:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))


def leave(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop call nothing any more; signals do again what they do by default."""
    for number in STOPPING:
        if current().has_signals:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
        else:
            signal.signal(number, default_of(number))


def default_of(number: int) -> Any:
    """Return what Python does on a signal unless a program says otherwise."""
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


@contextmanager
def handled(numbers: tuple[int, ...], handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Call *handler* for these signals within the block; in the main thread."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
