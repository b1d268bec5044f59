"""The console of Windows, whose functions are pretended; for a real terminal see `tests/cli`."""

from __future__ import annotations

import os

import pytest

from fencepost.cli.screen import read_keys
from fencepost.platform import terminal
from fencepost.platform.system import System
from fencepost.platform.terminal import PolledKeyboard, TerminalKeyboard, keyboard


class Console:
    """As `msvcrt`, with keys that were pressed before."""

    def __init__(self, keys: str) -> None:
        self._keys = list(keys)

    def kbhit(self) -> bool:
        return bool(self._keys)

    def getwch(self) -> str:
        return self._keys.pop(0)


def pressed(keys: str) -> PolledKeyboard:
    made = PolledKeyboard()
    made._console = Console(keys)
    return made


def test_each_system_has_its_keyboard(system: System) -> None:
    found = keyboard()
    assert isinstance(found, TerminalKeyboard) is system.has_signals
    if isinstance(found, TerminalKeyboard):
        os.close(found._change)
        os.close(found._changes)


def test_keys_have_the_names_that_they_have_elsewhere() -> None:
    made = pressed("\xe0H\0Pqx\xe0S")
    found = [made.wait(0) for _ in range(5)]
    assert made.wait(0) is None
    assert read_keys(b"".join(key or b"" for key in found))[0] == ["up", "down", "quit"]


def test_ctrl_c_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed("\x03").wait(0)


def test_a_new_size_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pressed("")
    assert made.wait(0.001) is None
    monkeypatch.setattr(terminal, "_size", lambda: (10, 10))
    assert made.wait(10) == b""
    assert made.wait(0) is None
