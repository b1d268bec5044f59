"""The whole terminal: draw frames that follow its size, and wait for keys."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

from fencepost.cli import output
from fencepost.platform.signals import STOPPING, handled
from fencepost.platform.terminal import keyboard

if TYPE_CHECKING:
    from rich.text import Text

LEAVING = tuple(number for number in STOPPING if number != signal.SIGINT)
KEYS = {
    b"q": "quit",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
}
"""The arrow keys are sent in two ways, as the mode of the terminal is."""


def read_keys(data: bytes) -> tuple[list[str], bytes]:
    """Return the names of the keys in *data*, and the beginning of one that is incomplete."""
    names = []
    while data:
        known = next((key for key in KEYS if data.startswith(key)), None)
        if known is not None:
            names.append(KEYS[known])
        elif any(key.startswith(data) for key in KEYS):
            return names, data
        data = data[len(known or b" ") :]
    return names, b""


class Screen:
    """A terminal that shows one frame at a time."""

    def __init__(self) -> None:
        self._console = output.console()
        self._keyboard = keyboard()
        self._rest = b""

    @property
    def size(self) -> tuple[int, int]:
        """The columns and lines that the terminal has now."""
        width, height = os.get_terminal_size(sys.stdout.fileno())
        # A terminal may not know its size.
        return (width, height) if width and height else shutil.get_terminal_size()

    def draw(self, lines: Sequence[Text]) -> None:
        """Replace what is shown."""
        from rich.console import Group

        self._console.size = self.size
        self._console.update_screen(Group(*output.for_terminal(lines)))

    def wait(self, seconds: float) -> list[str] | None:
        """Return the keys that were pressed, none if the size changed; None after *seconds*."""
        try:
            data = self._keyboard.wait(seconds)
        except EOFError:
            return ["quit"]
        if not data:
            return None if data is None else []
        names, self._rest = read_keys(self._rest + data)
        return names

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take over the terminal, and give it back however the block is left."""
        with ExitStack() as undo:
            undo.enter_context(handled(LEAVING, _leave))
            undo.enter_context(self._keyboard.taken())
            undo.callback(self._console.set_alt_screen, False)
            self._console.set_alt_screen(True)
            undo.callback(self._console.show_cursor, True)
            self._console.show_cursor(False)
            yield


def _leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
