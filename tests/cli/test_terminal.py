"""What a person sees: the command on a terminal that is one, as far as it can tell."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
from tests.cli.support import PATIENCE, Command, wait_until

ADD = '{"a": 1, "b": 2}'


PIECES = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)
"""A control sequence, or a character."""


class Terminal:
    """A pseudo-terminal: all that was written to it, and what it shows of that."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._unread = ""
        self.text = ""
        self.resize(140, 24)

    def resize(self, width: int, height: int) -> None:
        """Change the size; what was shown is gone."""
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.width, self.height = width, height
        self.lines = [[" "] * width for _ in range(height)]
        self.x = self.y = 0
        self.has_wrapped = False

    def read(self) -> str:
        try:
            while data := os.read(self.ours, 65536):
                self._show(self._decoder.decode(data))
        except OSError:
            pass  # nothing to read now
        return self.text

    def _show(self, text: str) -> None:
        self.text += text
        text = self._unread + text
        end = 0
        for piece in PIECES.finditer(text):
            end = piece.end()
            given, control, character = piece.groups()
            if control == "H":
                row, column = (int(each) for each in (given or "1;1").split(";"))
                self.x, self.y = column - 1, row - 1
            elif character == "\r":
                self.x = 0
            elif character == "\n":
                self.y += 1
            elif character is not None:
                if self.x == self.width:
                    self.x, self.y, self.has_wrapped = 0, self.y + 1, True
                if self.y < self.height:  # a frame of before a resize may be higher
                    self.lines[self.y][self.x] = character
                self.x += 1
        self._unread = text[end:]

    @property
    def shown(self) -> list[str]:
        """The lines on it, without what is blank at the end."""
        self.read()
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip().split("\n")

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)


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
    others = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost", "--url", command.url, *words],
        cwd=command.folder,
        env={**others, "PYTHONPATH": paths, "TERM": "xterm", **environment},
        stdin=terminal.theirs,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
    )


@pytest.fixture
def listed(command: Command) -> Command:
    """A store with a job that is delayed, one that is dead, and one that has completed."""
    command.submit("add", ADD)
    command.submit("bad", '{"reason": "the bank declined the card"}')
    command.ok("worker", "--burst")
    command.submit("add", ADD, "--delay", "1h", "--queue", "slow", "--priority", "high")
    return command


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            """
ID        TYPE  QUEUE    STATE      ATTEMPT  CREATED  DUE        PRIORITY
<slow>  add   slow     delayed    0/3      <ago>  <soon>  high
<dead>  bad   default  failed     1/3      <ago>
  permanent: the bank declined the card
<done>  add   default  completed  1/3      <ago>
""",
        ),
        (
            120,
            """
ID        TYPE  QUEUE    STATE      ATTEMPT  CREATED  DUE        PRIORITY  NOTE
<slow>  add   slow     delayed    0/3      <ago>  <soon>  high
<dead>  bad   default  failed     1/3      <ago>   permanent: the bank declined the card
<done>  add   default  completed  1/3      <ago>
""",
        ),
    ],
    ids=["80 columns", "120 columns"],
)
def test_a_list_fits_the_terminal(
    listed: Command, terminal: Terminal, width: int, expected: str
) -> None:
    terminal.resize(width, 24)
    assert run(listed, terminal, "jobs", "ls").wait(PATIENCE) == 0
    shown = "\n".join(terminal.shown)
    assert not terminal.has_wrapped
    for job, name in zip(listed.json("jobs", "ls")["jobs"], ("slow", "dead", "done"), strict=True):
        assert job["id"] not in shown
        shown = shown.replace(job["id"][:8], f"<{name}>")
    # How long ago it was depends on the machine.
    shown = re.sub(r"\d+ \w+ ago|\bnow\b", "<ago>", re.sub(r"in \d+ min", "<soon>", shown))
    assert [line.split() for line in shown.splitlines()] == [
        line.split() for line in expected.strip().splitlines()
    ]


def test_what_a_terminal_shortens_can_be_typed(listed: Command, terminal: Terminal) -> None:
    assert run(listed, terminal, "dlq", "ls").wait(PATIENCE) == 0
    short = terminal.shown[1].split()[0]
    assert len(short) == 8
    assert listed.json("jobs", "show", short)["type"] == "bad"


def test_a_dead_letter_comes_with_the_next_commands(listed: Command, terminal: Terminal) -> None:
    assert run(listed, terminal, "dlq", "ls").wait(PATIENCE) == 0
    last = next(line for line in terminal.shown if line.startswith("next:"))
    assert "jobs show ID" in last
    short = terminal.shown[1].split()[0]
    assert run(listed, terminal, "jobs", "why", short).wait(PATIENCE) == 0
    terminal.read()
    assert f"jobs run {short} --local" in terminal.text
    assert f"jobs retry {short}" in terminal.text
    assert "next:" not in listed("jobs", "show", short).output


def test_a_pipe_gets_whole_ids_exact_times_and_every_column(listed: Command) -> None:
    head, first, *_ = listed.ok("jobs", "ls").splitlines()
    assert head.split("  ")[0] == "ID"
    assert "CREATED (UTC)" in head
    assert "NOTE" in head
    job = listed.json("jobs", "ls")["jobs"][0]
    assert first.startswith(job["id"])
    assert job["created_at"].replace("T", " ")[:19] in first


def test_states_are_coloured_and_progress_is_a_bar(command: Command, terminal: Terminal) -> None:
    job_id = command.submit("stuck")
    command.start("worker")
    wait_until(lambda: command.json("jobs", "show", job_id)["progress"], "some progress")
    assert run(command, terminal, "jobs", "ls").wait(PATIENCE) == 0
    assert "█████░░░░░ 50% stuck" in terminal.shown[1]
    assert "\x1b[1;33mrunning" in terminal.text


def test_a_terminal_without_utf_8_gets_plain_bars(command: Command, terminal: Terminal) -> None:
    command.submit("stuck")
    command.start("worker")
    wait_until(lambda: command.json("jobs", "ls")["jobs"][0]["progress"], "some progress")
    child = run(command, terminal, "jobs", "ls", PYTHONIOENCODING="ascii")
    assert child.wait(PATIENCE) == 0
    assert "#####..... 50% stuck" in terminal.shown[1]


def test_no_colour_is_used_when_none_is_wanted(command: Command, terminal: Terminal) -> None:
    job_id = command.submit("add", ADD)
    assert run(command, terminal, "jobs", "show", job_id, NO_COLOR="1").wait(PATIENCE) == 0
    assert job_id in terminal.read()
    assert "\x1b[3" not in terminal.text


def test_submit_says_what_to_type_next(command: Command, terminal: Terminal) -> None:
    child = run(command, terminal, "submit", "add", ADD)
    assert child.wait(PATIENCE) == 0
    assert "next: fencepost --url" in terminal.read()


def test_replaying_shows_a_bar(command: Command, terminal: Terminal) -> None:
    command.submit("bad", '{"reason": "no"}')
    command.ok("worker", "--burst")
    assert run(command, terminal, "dlq", "replay", "--all").wait(PATIENCE) == 0
    assert "replayed 1 dead letter" in terminal.read()
