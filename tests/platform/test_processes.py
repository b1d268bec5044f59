"""Children that end with their parent, on each system."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from multiprocessing import Pipe

import pytest

from fencepost.platform import processes
from fencepost.platform.processes import (
    FamilyPipe,
    raise_file_limit,
    resident_memory,
    wait_for_message,
)
from fencepost.platform.system import System

CHILD = """
import sys, threading
from fencepost.clock import SystemClock
from fencepost.worker.supervisor import watch_lifeline
stopped = threading.Event()
watch_lifeline(int(sys.argv[2]), stop=stopped.set, clock=SystemClock(), patience=60)
assert sys.stdin.read() == ""
print("ready", flush=True)
stopped.wait()
print("stopped", flush=True)
"""
PARENT = f"""
import sys
from fencepost.platform.processes import FamilyPipe
child = FamilyPipe().start([sys.executable, "-c", {CHILD!r}], option="--lifeline")
child.wait()
"""
LINE_TIMEOUT = 30


def started(pipe: FamilyPipe) -> subprocess.Popen[bytes]:
    child = pipe.start([sys.executable, "-c", CHILD], option="--lifeline", stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def ended(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None
    with child.stdout:
        rest = child.stdout.read()
    child.wait(LINE_TIMEOUT)
    if child.stdin is not None:
        child.stdin.close()
    return rest


def test_a_child_stops_when_its_parent_closes_the_pipe(system: System) -> None:
    pipe = FamilyPipe()
    children = [started(pipe) for _ in range(2)]
    pipe.close()
    assert [ended(child) for child in children] == [b"stopped\n"] * 2


def test_a_child_stops_when_its_parent_is_killed(system: System) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    parent.send_signal(signal.SIGKILL)
    assert parent.stdout.readline() == b"stopped\n"
    parent.wait(LINE_TIMEOUT)
    parent.stdout.close()


def test_a_child_is_asked_to_stop_by_a_byte_where_there_are_no_signals(windows: System) -> None:
    pipe = FamilyPipe()
    child = started(pipe)
    child.terminate()
    assert ended(child) == b"stopped\n"
    child.terminate()  # it has ended: nothing happens
    pipe.close()


def test_a_child_can_be_killed_all_the_same(windows: System) -> None:
    pipe = FamilyPipe()
    child = started(pipe)
    child.kill()
    assert ended(child) == b""
    assert child.returncode == -signal.SIGKILL
    pipe.close()


async def test_a_pipe_is_waited_for_without_blocking_the_loop(system: System) -> None:
    ours, theirs = Pipe()
    waiting = asyncio.create_task(wait_for_message(ours))
    await asyncio.sleep(0)
    assert not waiting.done()
    theirs.send_bytes(b"now")
    await asyncio.wait_for(waiting, 10)
    assert ours.recv_bytes() == b"now"


async def test_the_end_of_a_pipe_is_news_too(system: System) -> None:
    ours, theirs = Pipe()
    waiting = asyncio.create_task(wait_for_message(ours))
    await asyncio.sleep(0)
    theirs.close()
    await asyncio.wait_for(waiting, 10)
    with pytest.raises(EOFError):
        ours.recv_bytes()


async def test_a_wait_that_was_given_up_takes_no_message(windows: System) -> None:
    """A thread that stayed behind would read what the next wait is for."""
    ours, theirs = Pipe()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait_for_message(ours), 0.01)
    theirs.send_bytes(b"for the next")
    await asyncio.wait_for(wait_for_message(ours), 10)
    assert ours.recv_bytes() == b"for the next"


def test_memory_is_known_where_the_system_says_it(system: System) -> None:
    own = resident_memory()
    assert (own > 1_000_000) is system.has_owners
    assert resident_memory(2**22 + 1) == 0


def test_ps_agrees_with_the_kernel() -> None:
    """macOS has no other way to ask for the memory of another process."""
    if subprocess.run(["sh", "-c", "command -v ps"], capture_output=True).returncode:
        pytest.skip("there is no ps")
    found = processes._memory_by_ps(os.getpid())
    assert 0.5 < found / resident_memory() < 2


def test_files_are_unlimited_where_nobody_counts_them(windows: System) -> None:
    assert raise_file_limit(10) is None
