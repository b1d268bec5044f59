"""Child processes that end with their parent, and what is known of a process.

A child reads from a pipe of its parent all the time. The end of the pipe means that the parent has
ended, for whatever reason; a byte asks the child to stop, where no signal can.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fencepost.platform.signals import STOPPING
from fencepost.platform.system import current

POLL_INTERVAL = 0.05
STANDARD_INPUT = 0
PIPE_ROOM = 32_768 if os.name == "posix" else 4_096
"""Bytes that fit into an empty pipe on every system of this kind."""


def after_fork(in_child: Callable[[], None]) -> None:
    """Call *in_child* in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):  # else there is no fork
        os.register_at_fork(after_in_child=in_child)


class FamilyPipe:
    """What the children of one process read from: a pipe that all of them inherit, or one each.

    Only the parent can write, and no child inherits that end.
    """

    def __init__(self) -> None:
        self._ends = os.pipe() if current().has_shared_descriptors else ()
        self._stoppable: list[StoppableProcess] = []

    def start(
        self, command: Sequence[str], *, option: str, fds: Sequence[int] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a process in its own group, so that Ctrl-C reaches it only through us.

        Behind *option* its command says what to read from. It inherits *fds*, where it can.
        """
        if not self._ends:
            assert not fds, "no descriptor can be inherited here"
            child = StoppableProcess(
                [*command, option, str(STANDARD_INPUT)],
                stdin=subprocess.PIPE,
                bufsize=0,
                **_own_group(),
                **options,
            )
            self._stoppable = [each for each in self._stoppable if each.poll() is None] + [child]
            return child
        reading = self._ends[0]
        return subprocess.Popen(
            [*command, option, str(reading)],
            pass_fds=[reading, *fds],
            stdin=subprocess.DEVNULL,
            **_own_group(),
            **options,
        )

    def close(self) -> None:
        """End every child that still reads."""
        for fd in self._ends:
            os.close(fd)
        for child in self._stoppable:
            assert child.stdin is not None
            child.stdin.close()


def _own_group() -> dict[str, Any]:
    if os.name == "posix":
        return {"process_group": 0}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


class StoppableProcess(subprocess.Popen[bytes]):
    """A child that is asked to stop by a byte on its input, because no signal can ask it."""

    def send_signal(self, sig: int) -> None:
        if sig not in STOPPING:
            super().send_signal(sig)
            return
        with suppress(OSError, ValueError):  # it has ended, or is about to
            assert self.stdin is not None
            self.stdin.write(b"!")

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def detach_input(fd: int) -> int:
    """Return a descriptor of ours for what a child reads from its parent.

    If that is the standard input, handlers find nothing there: what they start would wait for a
    pipe that a thread of ours reads.
    """
    if fd != STANDARD_INPUT:
        os.set_inheritable(fd, False)
        return fd
    own = os.dup(fd)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STANDARD_INPUT)
    os.close(nothing)
    return own


async def wait_for_message(pipe: Connection) -> None:
    """Return when *pipe* can be read, without blocking the loop."""
    if current().has_shared_descriptors:
        await _readable(pipe)
    else:
        await _polled(pipe)


async def _readable(pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    fd = pipe.fileno()
    loop.add_reader(fd, wake)
    try:
        await readable
    finally:
        loop.remove_reader(fd)
        with suppress(OSError):  # it was closed meanwhile
            os.set_blocking(fd, True)  # uvloop does not leave it as it was


async def _polled(pipe: Connection) -> None:
    """Wait in a thread: no event loop of Windows can wait for a pipe."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    is_over = threading.Event()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    def wait() -> None:
        with suppress(OSError, ValueError):  # closed: the reader finds out
            while not pipe.poll(POLL_INTERVAL):
                if is_over.is_set():
                    return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(wake)

    waiting = threading.Thread(target=wait, name="fencepost-pipe", daemon=True)
    waiting.start()
    try:
        await readable
    finally:
        is_over.set()
        waiting.join()  # after a cancellation: two threads must not look at one pipe


def resident_memory(pid: int | None = None) -> int:
    """Return the resident memory of a process in bytes, by default of this one; 0 if unknown.

    Without ``/proc`` it is what ``ps`` says. The peak of this process would be cheaper to ask for,
    but survives the start of another program in its place: a worker that was replaced for its
    memory would be refused at once.
    """
    if current().has_proc:
        with suppress(OSError):
            pages = Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return _memory_by_ps(pid or os.getpid()) if current().has_owners else 0


def _memory_by_ps(pid: int) -> int:
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        found = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True, timeout=5
        )
        return int(found.stdout) * 1024
    return 0


def raise_file_limit(wanted: int) -> int | None:
    """Let this process open *wanted* files if it may; return how many; None without a limit."""
    if not current().has_owners:
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def suspend(pid: int) -> None:
    """Suspend a process, where that is possible."""
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let a suspended process go on."""
    os.kill(pid, signal.SIGCONT)
