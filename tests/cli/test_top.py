"""``fencepost top`` on a terminal: what it shows, at which size, and after which keys."""

from __future__ import annotations

import signal
import termios
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.support import PATIENCE, Command, wait_until
from tests.cli.test_terminal import Terminal, run, terminal

from fencepost.cli.commands.frame import Activity, RecentFailure, Snapshot, frame, shares
from fencepost.cli.screen import read_keys
from fencepost.core.job.job import Category, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.overview import QueueView, WorkerInfo

__all__ = ["terminal"]

ADD = '{"a": 1, "b": 2}'
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
UP, DOWN = b"\x1b[A", b"\x1b[B"


def snapshot(second: int = 0, ended: int = 0, queues: int = 3) -> Snapshot:
    """Return what a store with a few busy queues looks like."""
    failure = Failure(Category.TEMPORARY, "connection reset by peer " * 5)
    return Snapshot(
        url="sqlite:////var/lib/shop/jobs.db",
        at=NOW + timedelta(seconds=second),
        counts=dict.fromkeys(State, 3),
        queues=[
            QueueView(
                name=f"queue-{number}",
                counts={State.RUNNING: 1, State.COMPLETED: ended, State.SCHEDULED: 12_000},
                is_paused=number == 1,
            )
            for number in range(queues)
        ],
        workers=[
            WorkerInfo(
                id=f"host-{number}",
                host="host",
                pid=7,
                queues=None,
                types=("add",),
                concurrency=4,
                started_at=NOW,
                running=number,
                seen_at=NOW,
            )
            for number in range(3)
        ],
        running=[],
        failures=[
            RecentFailure(
                job_id=f"3f2a91c{number}-0000-4000-8000-000000000000",
                type="send_receipt_mail",
                queue="mail",
                state=State.RETRYING,
                attempt=1,
                failed_at=NOW,
                failure=failure,
            )
            for number in range(9)
        ],
    )


def drawn(
    size: tuple[int, int], selected: str | None = None, activity: Activity | None = None
) -> list[str]:
    shown = snapshot(queues=30)
    lines = frame(shown, activity or Activity(), size, selected=selected, foot="q quits")
    return [line.plain for line in lines]


@pytest.mark.parametrize("width", [1, 10, 40, 80, 120, 300])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 10, 24, 100])
def test_a_frame_fits_any_screen(width: int, height: int) -> None:
    lines = drawn((width, height), "queue-17")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_a_small_screen_shows_the_most_important() -> None:
    text = "\n".join(drawn((40, 10), "queue-17"))
    for part in ("fencepost top", "slots ██░░", "QUEUE", "queue-17", "FAILED", "q quits"):
        assert part in text
    assert "queue-0 " not in text  # it scrolls to what is selected


def test_a_queue_shows_how_many_jobs_ended_in_it_and_that_it_is_paused() -> None:
    activity = Activity()
    for second, ended in enumerate((10, 10, 40, 20)):  # the last time, some were pruned
        activity.add(snapshot(second, ended))
    (line,) = [line for line in drawn((120, 40), activity=activity) if "queue-1 " in line]
    assert line.split()[:5] == ["queue-1", "(paused)", "0", "▁" * 18 + "█▁", "12,000"]
    assert activity.rate == 0


@pytest.mark.parametrize(
    ("wanted", "room", "given"),
    [
        ([4, 3, 0, 2], 20, [4, 3, 0, 2]),
        ([9, 9, 9, 9], 13, [4, 3, 3, 3]),
        ([9, 9, 9, 9], 8, [3, 3, 2, 0]),
        ([9, 2, 9], 7, [3, 2, 2]),
        ([9, 9], 1, [0, 0]),
        ([], 5, []),
    ],
)
def test_tables_share_the_lines(wanted: list[int], room: int, given: list[int]) -> None:
    assert shares(wanted, room) == given


def test_keys_are_read_in_pieces_and_others_are_ignored() -> None:
    assert read_keys(b"x" + UP + b"\x1bOB\x1b[C\x1b[1;5Aq") == (["up", "down", "quit"], b"")
    names, rest = read_keys(UP + b"\x1b")
    assert (names, rest) == (["up"], b"\x1b")
    assert read_keys(rest + b"[B") == (["down"], b"")
    assert read_keys("日".encode()) == ([], b"")


@pytest.fixture
def failed(command: Command) -> Command:
    """A store with a failure in one queue and a job that is not due yet in another."""
    command.submit("bad", '{"reason": "the bank declined the card"}')
    command.ok("worker", "--burst")
    command.submit("add", ADD, "--queue", "mail", "--delay", "1h")
    return command


def shows(terminal: Terminal, *parts: str) -> bool:
    text = "\n".join(terminal.shown)
    return all(part in text for part in parts)


@pytest.mark.parametrize("width", [80, 120])
def test_top_follows_keys_and_the_size_of_the_terminal(
    failed: Command, terminal: Terminal, width: int
) -> None:
    terminal.resize(width, 24)
    before = termios.tcgetattr(terminal.theirs)
    child = run(failed, terminal, "top", "--interval", "100ms")
    wait_until(lambda: shows(terminal, "FAILED", "the bank", "q quits"), "the first frame")
    lines = terminal.shown
    assert lines[0].startswith("fencepost top  ")
    assert lines[1] == "no live workers"
    assert lines[3].split() == ["QUEUE", "JOBS/S", "ENDED", "DELAYED", "FAILED"]
    assert [line.split()[0] for line in lines[4:6]] == ["default", "mail"]
    assert lines[-1] == "↑↓ all queues   q quits"

    terminal.press(DOWN + DOWN)
    wait_until(lambda: shows(terminal, "↑↓ mail"), "the second queue")
    wait_until(lambda: not shows(terminal, "the bank"), "its failures alone")
    assert "\x1b[7mmail" in terminal.text
    terminal.press(UP)
    wait_until(lambda: shows(terminal, "↑↓ default", "the bank"), "the first queue")
    terminal.press(UP + UP)
    wait_until(lambda: shows(terminal, "↑↓ all queues"), "all queues")

    terminal.resize(40, 10)
    child.send_signal(signal.SIGWINCH)
    wait_until(lambda: shows(terminal, "q quits", "QUEUE", "default"), "a small frame")
    assert len(terminal.shown) <= 10
    terminal.press(b"q")
    wait_until(lambda: (terminal.read(), child.poll())[1] is not None, "the end")
    assert child.returncode == 0
    assert not terminal.has_wrapped
    assert "Traceback" not in terminal.text
    assert "\x1b[?1049l" in terminal.text  # back on the screen of before
    assert "\x1b[?25h" in terminal.text
    assert termios.tcgetattr(terminal.theirs) == before


def test_top_shows_what_runs_now_and_what_ends(command: Command, terminal: Terminal) -> None:
    terminal.resize(120, 30)
    command.submit("stuck")
    command.start("worker", "--concurrency", "4")
    child = run(command, terminal, "top", "--interval", "100ms")
    wait_until(
        lambda: shows(terminal, "slots ██░░░░░░░░ 1/4  workers 1", "█████░░░░░ 50% stuck"),
        "the job that runs",
    )
    command.submit("add", ADD)
    wait_until(lambda: "▁█" in terminal.read(), "a sparkline that rises")
    child.send_signal(signal.SIGTERM)
    wait_until(lambda: (terminal.read(), child.poll())[1] is not None, "the end")
    assert child.returncode == 128 + signal.SIGTERM
    assert "\x1b[?1049l" in terminal.text


def test_top_ends_at_an_interrupt(failed: Command, terminal: Terminal) -> None:
    child = run(failed, terminal, "top", "--interval", "100ms")
    wait_until(lambda: shows(terminal, "q quits"), "a frame")
    child.send_signal(signal.SIGINT)
    wait_until(lambda: (terminal.read(), child.poll())[1] is not None, "the end")
    assert child.returncode == 0


def test_a_terminal_that_cannot_be_drawn_on_gets_everything_once(
    failed: Command, terminal: Terminal
) -> None:
    assert run(failed, terminal, "top", TERM="dumb").wait(PATIENCE) == 0
    assert shows(terminal, "QUEUE", "FAILED", "the bank")
    assert "\x1b" not in terminal.text


def test_a_pipe_gets_everything_once(failed: Command) -> None:
    text = failed.ok("top")
    [letter] = failed.json("top")["failures"]
    assert letter["job_id"] in text
    assert letter["failure"]["message"] in text
    assert "AT (UTC)" in text
