"""Processes of a benchmark: started, controlled, and ended in any case."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from bench.bench import Bench
from bench.child import Order, Report
from fencepost.clock import Clock

ROOT = Path(__file__).parent.parent
"""Where Python finds ``bench``, which no package installs."""
WORKER = "bench.child"
START_TIMEOUT = 60.0
WORK_TIMEOUT = 600.0
END_TIMEOUT = 10.0


class ChildFailedError(Exception):
    """A process of a benchmark died or went silent."""


class Child:
    """One process, which runs *module* with its order; leaving its context ends it.

    A *command* is run instead of a module of ours, with the variables of an *environment*.
    """

    def __init__(
        self,
        order: msgspec.Struct | None,
        *,
        log: Path,
        clock: Clock,
        module: str = WORKER,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._clock = clock
        self._log = log
        self._heard = b""
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command or [sys.executable, "-m", module, msgspec.json.encode(order).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                cwd=ROOT,
                env=environment,
            )

    def wait_until_ended(self, timeout: float) -> None:
        """Wait until it has ended by itself, and well."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildFailedError(f"a process did not end in {timeout:g} s") from None
        if code:
            raise ChildFailedError(f"a process failed: {self._last_words()}")

    def wait_until_ready(self) -> None:
        line = self.line(START_TIMEOUT)
        if line != "ready":
            raise ChildFailedError(f"a process said {line!r} instead of ready")

    def go(self) -> None:
        self.tell(b"go")

    def tell(self, line: bytes) -> None:
        """Write *line* to its standard input."""
        assert self._process.stdin is not None
        rest = memoryview(line + b"\n")
        while rest:  # a pipe takes no more at once than it has room for
            rest = rest[self._process.stdin.write(rest) :]

    def stop(self) -> None:
        """Have it finish and report."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def report(self) -> Report:
        """Return what it did, when it has."""
        return msgspec.json.decode(self.line(WORK_TIMEOUT), type=Report)

    def line(self, timeout: float) -> str:
        """Return the next line of its standard output, or raise ChildFailedError."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = self._clock.monotonic() + timeout
        while b"\n" not in self._heard:
            left = deadline - self._clock.monotonic()
            readable, _, _ = select.select([descriptor], [], [], max(left, 0))
            part = os.read(descriptor, 65_536) if readable else b""
            if not part:
                what = "ended early" if readable else f"said nothing for {timeout:g} s"
                raise ChildFailedError(f"a process {what}: {self._last_words()}")
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it left no message"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_all(
    orders: Sequence[Order],
    *,
    folder: Path,
    clock: Clock,
    at_start: Callable[[], None] = lambda: None,
) -> list[Report]:
    """Start a process for each order, let them go at the same time, return what they did.

    *at_start* is called when all are ready and none has begun.
    """
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child(order, log=folder / f"child-{number}.log", clock=clock))
            for number, order in enumerate(orders)
        ]
        for child in children:
            child.wait_until_ready()
        at_start()
        for child in children:
            child.go()
        return [child.report() for child in children]


def rate(reports: list[Report]) -> float:
    """Return the jobs a second, from the first claim of any process to the last settlement."""
    busy = [report for report in reports if report.settled]
    began, ended = min(report.began for report in busy), max(report.ended for report in busy)
    return sum(report.settled for report in busy) / (ended - began)


def drain(bench: Bench, order: Order) -> float:
    """Return the jobs a second of one process, which must settle all that were filled in."""
    reports = run_all([order], folder=bench.folder, clock=bench.clock)
    settled = reports[0].settled
    if settled < bench.sizes.jobs:
        raise ChildFailedError(f"of {bench.sizes.jobs:,} jobs only {settled:,} were settled")
    return rate(reports)
