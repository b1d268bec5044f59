"""A peer's program as a process, and how a process is killed with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.children import START_TIMEOUT, WORK_TIMEOUT, Child
from bench.peers import environments
from bench.peers.catalog import Peer
from bench.peers.trace import Trace
from fencepost.clock import Clock

NAP_SECONDS = 2.0
FILL_TIMEOUT = 3600.0


class Order(msgspec.Struct, frozen=True):
    """What a submitting program is to do."""

    do: str
    count: int
    first: int = 0


class Answer(msgspec.Struct, frozen=True):
    """What it says when it has: how long that took, or when it submitted each number."""

    seconds: float = 0.0
    calls: list[tuple[int, int]] = []


class Program(Child):
    """A program of a peer; leaving its context kills it with every process that it started."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ask(self, order: Order, timeout: float = WORK_TIMEOUT) -> Answer:
        """Have it do something, and return its answer."""
        self.tell(msgspec.json.encode(order))
        return msgspec.json.decode(self.line(timeout), type=Answer)

    def last_words(self) -> str:
        return self._last_words()

    def kill(self) -> None:
        """Kill it and all that it started, as the loss of its machine would."""
        if self.is_running:
            kill_tree(self.pid)
            self._process.wait()

    def __exit__(self, *raised: Any) -> None:
        self.kill()
        super().__exit__(*raised)


class Programs:
    """Starts programs; their logs and traces are files under *folder*."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self._started = 0

    def trace(self, peer: Peer) -> Trace:
        """Return a trace that nobody has written to."""
        self._started += 1
        return Trace(self.folder / f"{peer.name}-{self._started}.trace")

    def start(self, peer: Peer, role: str, url: str, trace: Trace) -> Program:
        """Start a program in a role."""
        self._started += 1
        return Program(
            None,
            log=self.folder / f"{peer.name}-{role}-{self._started}.log",
            clock=self.clock,
            command=environments.command(peer, role),
            environment={
                **environments.variables(peer),
                "PEERS_URL": url,
                "PEERS_TRACE": str(trace.path),
                "PEERS_NAP": str(NAP_SECONDS),
            },
        )

    def prepare(self, peer: Peer, url: str) -> None:
        """Make what the queue needs in an empty store."""
        with self.start(peer, "prepare", url, self.trace(peer)) as program:
            program.wait_until_ended(START_TIMEOUT)

    @contextmanager
    def submitting(self, peer: Peer, url: str) -> Iterator[Program]:
        with self.start(peer, "submit", url, self.trace(peer)) as program:
            program.wait_until_ready()
            yield program

    @contextmanager
    def working(
        self, peer: Peer, url: str, trace: Trace, processes: int = 1
    ) -> Iterator[list[Program]]:
        """Have so many workers, which all begin when the last of them is ready."""
        with ExitStack() as stack:
            team = [
                stack.enter_context(self.start(peer, "work", url, trace)) for _ in range(processes)
            ]
            for program in team:
                program.wait_until_ready()
            for program in team:
                program.go()
            yield team

    def fill(self, peer: Peer, url: str, count: int) -> None:
        """Submit *count* no-op jobs in the quickest way that the queue has."""
        with self.submitting(peer, url) as program:
            program.ask(Order("bulk", count), FILL_TIMEOUT)


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, also those in process groups of their own."""
    # Stopped first, so that none starts another one meanwhile.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    for each in [pid, *descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the pids of what a process has started, and of what those have."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        own, parent = map(int, line.split())
        children.setdefault(parent, []).append(own)
    found = list(children.get(pid, []))
    for each in found:
        found += children.get(each, [])
    return found
