"""What a person sees: the command on a terminal that is one, as far as it can tell."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.cli.support import PATIENCE, Command, wait_until


class Terminal:
    """A pseudo-terminal, and all that was written to it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self.text = ""

    def read(self) -> str:
        try:
            while data := os.read(self.ours, 65536):
                self.text += data.decode()
        except OSError:
            pass  # nothing to read now
        return self.text


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


def run(
    command: Command, terminal: Terminal, *words: str, **environment: str
) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost", "--url", command.url, *words],
        cwd=command.folder,
        env={**os.environ, "PYTHONPATH": paths, "TERM": "xterm", "COLUMNS": "140", **environment},
        stdin=subprocess.DEVNULL,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
    )


def test_top_is_live_until_interrupted(command: Command, terminal: Terminal) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    child = run(command, terminal, "top", "--interval", "100ms")
    wait_until(lambda: terminal.read().count("fencepost top") >= 2, "a second look")
    child.send_signal(signal.SIGINT)
    wait_until(lambda: (terminal.read(), child.poll())[1] is not None, "the end")
    assert child.returncode == 0
    assert "Traceback" not in terminal.text


def test_a_list_is_drawn_in_colour_with_whole_ids(command: Command, terminal: Terminal) -> None:
    job_id = command.submit("add", '{"a": 1, "b": 2}')
    assert run(command, terminal, "jobs", "ls").wait(PATIENCE) == 0
    assert job_id in terminal.read()
    assert "\x1b[36mscheduled" in terminal.text


def test_no_colour_is_used_when_none_is_wanted(command: Command, terminal: Terminal) -> None:
    job_id = command.submit("add", '{"a": 1, "b": 2}')
    assert run(command, terminal, "jobs", "show", job_id, NO_COLOR="1").wait(PATIENCE) == 0
    assert job_id in terminal.read()
    assert "\x1b[3" not in terminal.text


def test_submit_says_what_to_type_next(command: Command, terminal: Terminal) -> None:
    child = run(command, terminal, "submit", "add", '{"a": 1, "b": 2}')
    assert child.wait(PATIENCE) == 0
    assert "next: fencepost --url" in terminal.read()


def test_replaying_shows_a_bar(command: Command, terminal: Terminal) -> None:
    command.submit("bad", '{"reason": "no"}')
    command.ok("worker", "--burst")
    assert run(command, terminal, "dlq", "replay", "--all").wait(PATIENCE) == 0
    assert "replayed 1 dead letters" in terminal.read()
