"""Plants mutant after mutant, each in a process of its own, until a suite notices it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path

import msgspec
from tests.servers.places import sources
from tests.servers.postgres import PostgresServer, given

from lab.mutants.catalogue import MUTANTS
from lab.mutants.child import VARIABLE, Failure, Result
from lab.mutants.mutant import Mutant
from lab.mutants.suites import NAMES, arguments, needs_server

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 240.0
"""Seconds for one suite; it takes some, and a mutant that hangs is not caught by it."""
ROOMY = {"max_connections": "300"}
"""Several mutants at once share a server."""


class Verdict(StrEnum):
    """What a suite says of a mutant."""

    CAUGHT = "caught"
    MISSED = "missed"
    INVALID = "invalid"
    """It says nothing: the patch was not made, the product does not even start, or the suite does
    not pass without the mutant."""


class Trial(msgspec.Struct, frozen=True):
    """One mutant before one suite."""

    suite: str
    verdict: Verdict
    seconds: float
    reason: str = ""


class Row(msgspec.Struct):
    """One mutant and how it fared."""

    mutant: str
    about: str
    trials: list[Trial] = []

    @property
    def is_caught(self) -> bool:
        return any(trial.verdict is Verdict.CAUGHT for trial in self.trials)


class Report(msgspec.Struct):
    """Every mutant that was tried."""

    rows: list[Row]
    survivors: list[str]
    seconds: float


def run(
    names: Sequence[str] = (),
    *,
    suites: Sequence[str] = NAMES,
    is_thorough: bool = False,
    is_trusting: bool = False,
    jobs: int = 1,
    on_row: Callable[[Row], None] = lambda _: None,
) -> Report:
    """Try mutants (all without *names*); with *is_thorough*, each before every suite.

    A suite that fails without any mutant catches none. With *is_trusting* that is not looked at.
    """
    start = time.perf_counter()
    chosen = [each for each in MUTANTS if not names or each.name in names]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-mutants-")))
        needed = any(needs_server(each) for each in chosen)
        court = Court(folder, _server(stack) if needed else None, is_trusting=is_trusting)

        def judge(mutant: Mutant) -> Row:
            row = court.judge(mutant, suites, is_thorough=is_thorough)
            on_row(row)
            return row

        with ThreadPoolExecutor(jobs) as pool:
            rows = list(pool.map(judge, chosen))
    survivors = [row.mutant for row in rows if not row.is_caught]
    return Report(rows, survivors, time.perf_counter() - start)


def _server(stack: ExitStack) -> str:
    """Return the URL of a server for the children."""
    server = given()
    if server is None:
        server = stack.enter_context(PostgresServer(next(iter(sources()), None), settings=ROOMY))
    return server.url()


class Court:
    """Runs children, and remembers what passes without any mutant."""

    def __init__(self, folder: Path, server: str | None, *, is_trusting: bool = False) -> None:
        self._folder = folder
        self._is_trusting = is_trusting
        self._environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
        if server is not None:
            self._environment["FENCEPOST_TEST_POSTGRES"] = server
        self._sound: dict[tuple[str, ...], str] = {}
        self._mutex = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._count = 0

    def judge(self, mutant: Mutant, suites: Sequence[str], *, is_thorough: bool) -> Row:
        """Put *mutant* before one suite after the other, until one catches it."""
        row = Row(mutant.name, mutant.about)
        for suite in suites:
            command = arguments(mutant, suite)
            if command:
                row.trials.append(self._try(mutant, suite, command))
                if row.is_caught and not is_thorough:
                    break
        return row

    def _try(self, mutant: Mutant, suite: str, command: tuple[str, ...]) -> Trial:
        start = time.perf_counter()
        result = self._run(mutant.name, suite, command)
        seconds = time.perf_counter() - start
        if isinstance(result, str):
            return Trial(suite, Verdict.INVALID, seconds, result)
        if not result.is_whole:
            return Trial(suite, Verdict.INVALID, seconds, "a patch was not made")
        if not result.failures:
            if result.errors:
                return Trial(suite, Verdict.INVALID, seconds, _told(result.errors[0]))
            return Trial(suite, Verdict.MISSED, seconds)
        complaint = "" if self._is_trusting else self._complaint(suite, command)
        if complaint:
            return Trial(suite, Verdict.INVALID, seconds, f"without a mutant: {complaint}")
        return Trial(suite, Verdict.CAUGHT, seconds, _told(result.failures[0]))

    def _complaint(self, suite: str, command: tuple[str, ...]) -> str:
        """Return what is wrong when the same is run without a mutant; asked once a command."""
        key = (suite, *command)
        with self._mutex:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._sound:
                self._sound[key] = self._look(suite, command)
            return self._sound[key]

    def _look(self, suite: str, command: tuple[str, ...]) -> str:
        result = self._run("", suite, command)
        if isinstance(result, str):
            return result
        wrong = [*result.failures, *result.errors]
        if wrong:
            return _told(wrong[0])
        return "" if result.checked else "nothing was checked"

    def _run(self, name: str, suite: str, command: tuple[str, ...]) -> Result | str:
        """Run a child; return its result, or why there is none."""
        with self._mutex:
            self._count += 1
            path = self._folder / f"{self._count}.json"
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "lab.mutants.child", str(path), suite, *command],
                cwd=ROOT,
                env={**self._environment, VARIABLE: name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it took longer than {TIMEOUT:g} s"
        if not path.exists():
            return f"it broke down: {ended.stdout.decode(errors='replace')[-400:]}"
        return msgspec.json.decode(path.read_bytes(), type=Result)


def _told(failure: Failure) -> str:
    return f"{failure.where}: {failure.why}"
