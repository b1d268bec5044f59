"""``fencepost demo``: the first thing a newcomer sees, and it must be true."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from tests.cli.support import Command, is_running, wait_until
from tests.servers.places import NoServerError
from tests.servers.redis import find_program

from fencepost.cli.demo.scenario import counted
from fencepost.core.job.job import Attempt, AttemptOutcome

CLAIMS = 8


def pids_in(text: str) -> list[int]:
    """Return the process ids that the demo named."""
    line = next(line for line in text.splitlines() if "two worker processes" in line)
    return [int(word.strip(",")) for word in line.split() if word.strip(",").isdecimal()][:2]


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder in which the demo makes its own; a short name, for the sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="fp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_the_demo_proves_what_it_claims_and_leaves_nothing_behind(
    command: Command, temporary: Path, store: str
) -> None:
    if store == "redis":
        skip_without_redis()
    child = command.start("demo", "--exit", "--store", store)
    text, _ = child.communicate(timeout=60)
    assert child.returncode == 0, text + command.log
    assert text.count("✓") == CLAIMS
    assert "✗" not in text
    assert "\x1b" not in text
    assert "on attempt 2 (worker" in text
    assert "stale." in text
    assert "permanent: card 4242 has expired" in text
    assert not [pid for pid in pids_in(text) if is_running(pid)]
    assert list(temporary.iterdir()) == []
    if store == "redis":
        assert not is_listening(text)


def test_what_a_busy_machine_gave_back_is_no_attempt_of_the_demo() -> None:
    made = [
        Attempt(
            id=str(version),
            job_id="job",
            previous_id=None,
            number=number,
            lease_version=version,
            worker="worker",
            outcome=outcome,
            started_at=datetime.now(UTC),
        )
        for version, (number, outcome) in enumerate(
            [
                (1, AttemptOutcome.RELEASED),
                (1, AttemptOutcome.FAILED),
                (2, AttemptOutcome.RELEASED),
                (2, AttemptOutcome.SUCCEEDED),
            ]
        )
    ]
    assert counted(made) == [made[1], made[3]]


def skip_without_redis() -> None:
    try:
        find_program()
    except NoServerError as error:
        pytest.skip(str(error))


def is_listening(text: str) -> bool:
    """Tell whether the server whose URL the demo named still listens."""
    found = re.search(r"redis://127\.0\.0\.1:(\d+)/0", text)
    assert found is not None, text
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(found[1]))) == 0


def test_the_server_of_a_killed_demo_ends_too(command: Command, tmp_path: Path) -> None:
    skip_without_redis()
    child = command.start("demo", "--exit", "--store", "redis", "--path", str(tmp_path / "d"))
    assert child.stdout is not None
    line = child.stdout.readline()
    assert is_listening(line)
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: not is_listening(line), "the server ends")


def test_the_demo_interrupted_leaves_nothing_behind(command: Command, temporary: Path) -> None:
    child = command.start("demo", "--exit")
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(3)]
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 1
    assert not [pid for pid in pids_in("".join(lines)) if is_running(pid)]
    assert list(temporary.iterdir()) == []


def test_a_demo_that_keeps_running_serves_its_dashboard(command: Command, temporary: Path) -> None:
    child = command.start("demo")
    assert child.stdout is not None
    found = None
    while found is None:
        line = child.stdout.readline()
        assert line, "the demo ended"
        found = re.match(r"In a browser: (http://127\.0\.0\.1:\d+)/$", line)
    url = found[1]
    assert "<!doctype html>" in httpx.get(f"{url}/").text.lower()
    threading.Thread(target=child.stdout.read, daemon=True).start()  # or the pipe fills up
    wait_until(lambda: httpx.get(f"{url}/v1/jobs?limit=1").json()["jobs"] != [], "the first job")
    # It submits flows when the scenario is over.
    wait_until(lambda: httpx.get(f"{url}/v1/flows").json()["flows"] != [], "a flow")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    assert list(temporary.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health/live")


def test_the_workers_of_a_killed_demo_end_too(command: Command, tmp_path: Path) -> None:
    child = command.start("demo", "--exit", "--path", str(tmp_path / "d"))
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(3)]
    os.kill(child.pid, signal.SIGKILL)
    pids = pids_in("".join(lines))
    wait_until(lambda: not [pid for pid in pids if is_running(pid)], "the workers end")
