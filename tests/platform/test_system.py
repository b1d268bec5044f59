"""Which system has what, and that only `platform` asks."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost.platform.system import FORCED, LINUX, MACOS, SYSTEMS, WINDOWS, current

PACKAGE = Path(fencepost.__file__).parent
MODULES = {"fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "tty", "winreg"}
"""Modules of the standard library that some systems lack."""
NAMES = {
    "AF_UNIX", "F_FULLFSYNC", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_PATH", "SIGCONT",
    "SIGHUP", "SIGKILL", "SIGSTOP", "SIGUSR1", "SIGWINCH", "SO_REUSEADDR", "add_reader",
    "add_signal_handler", "chown", "fallocate", "fchmod", "fdatasync", "fork", "getegid", "geteuid",
    "getgid", "getuid", "killpg", "posix_fadvise", "pread", "pwrite", "register_at_fork",
    "sysconf", "umask",
}  # fmt: skip
"""Attributes that some systems lack."""


def uses(source: str) -> list[str]:
    """Return what *source* uses that not every system has."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if node.module in MODULES else []
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            found.append(node.attr)
    return found


def test_nothing_outside_this_folder_needs_a_certain_system() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "platform"]
    assert len(files) > 400
    wrong = {str(path): found for path in files if (found := uses(path.read_text("utf-8")))}
    assert wrong == {}


@pytest.mark.parametrize("source", ["import fcntl", "def f():\n    os.geteuid()", "os.O_PATH"])
def test_what_only_some_systems_have_is_found(source: str) -> None:
    assert uses(source)


@pytest.mark.skipif(sys.platform != "linux", reason="about Linux")
def test_this_system_is_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    current.cache_clear()
    assert current() is LINUX


@pytest.mark.parametrize(
    ("platform", "expected"), [("linux", LINUX), ("darwin", MACOS), ("win32", WINDOWS)]
)
def test_each_system_is_known_by_its_name(
    platform: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    current.cache_clear()
    try:
        assert current() is expected
    finally:
        current.cache_clear()


def test_every_alternative_is_forced_by_some_system() -> None:
    """An alternative that no forced run reaches would be untested."""
    flags = [field.name for field in dataclasses.fields(LINUX) if field.name != "name"]
    assert flags
    assert all(getattr(LINUX, flag) for flag in flags)
    for flag in flags:
        assert not all(getattr(each, flag) for each in SYSTEMS.values()), flag
