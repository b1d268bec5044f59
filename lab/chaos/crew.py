"""The processes of a run: started, kept in number, hurt and ended, each by its own handle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lab.chaos.caller import HERALD, NAMES
from lab.chaos.entries import Entry, Killed, Stopped
from lab.chaos.gate import Gate
from lab.chaos.ledger import Ledger
from lab.chaos.roster import enrol
from lab.chaos.settings import ROOT, Settings
from lab.chaos.tasks import ORDERED_QUEUE, RATED_QUEUE, WEBHOOK_QUEUE

CALLER, WORKER, ZOMBIE, API = "caller", "worker", "zombie", "api"
NODE_WORKER = Path(__file__).parent / "node" / "crewman.mjs"
CLERK = "clerk"
"""A worker in Python in any fleet: webhooks are the product's own, and a rate is of a task."""
CLERK_QUEUES = (RATED_QUEUE, WEBHOOK_QUEUE)
RESTART_DELAY = 0.1
END_TIMEOUT = 30.0


@dataclass
class Member:
    """One place in the crew, and the process that fills it now."""

    role: str
    name: str
    arguments: Sequence[str] = ()
    code: Path | None = None
    """Another version's source, if this is to run it."""
    is_kept: bool = True
    """Whether a process that ended is followed by another."""
    process: subprocess.Popen[bytes] | None = None
    stopped_at: float | None = None
    started_at: float = field(default=0.0)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


class Crew:
    """All members. Faults and the keeper of the numbers use it from different threads."""

    def __init__(
        self, settings: Settings, url: str, ledger: Ledger, gate: Gate | None = None
    ) -> None:
        self._settings = settings
        self._url = url
        self._gate = gate
        self._ledger = ledger
        self._mutex = threading.RLock()
        self._members: list[Member] = []
        self._log = (settings.place / "log").open("ab")

    def fill(self) -> None:
        """Start everybody who is there from the beginning."""
        if self._gate is not None:
            self.add(Member(API, API, (str(self._gate.port),)))
        for number in range(self._settings.workers):
            self.add(Member(WORKER, f"{WORKER}-{number}"))
        self.add(Member(WORKER, "ordered", (ORDERED_QUEUE, "1")))
        is_plain = self._settings.mutant is not None
        if not is_plain:
            self.add(Member(WORKER, CLERK, (",".join(CLERK_QUEUES), "8")))
        for name in NAMES:
            if not (is_plain and name == HERALD):
                self.add(Member(CALLER, name))
        self.add(Member(ZOMBIE, ZOMBIE, () if self._gate is None else (self._gate.url,)))

    def add(self, member: Member) -> Member:
        """Add a member and start its process."""
        with self._mutex:
            self._members.append(member)
            self._start(member)
        return member

    def remove(self, member: Member) -> None:
        """End a member for good."""
        with self._mutex:
            member.is_kept = False
            if member.is_running:
                self.kill(member)
            self._members.remove(member)

    def tend(self) -> None:
        """Start a process in every place that has none."""
        with self._mutex:
            for member in self._members:
                if member.is_kept and not member.is_running:
                    self._start(member)

    def _start(self, member: Member) -> None:
        environment = dict(os.environ)
        if member.code is not None:
            environment["PYTHONPATH"] = str(member.code)
        member.process = subprocess.Popen(
            self._command(member),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        member.started_at = self._ledger.now()
        enrol(self._settings.place, member.pid)

    def _command(self, member: Member) -> list[str]:
        program, url = [sys.executable, "-m", f"lab.chaos.{member.role}"], self._url
        if self._gate is not None and self._is_foreign(member) and member.code is None:
            program, url = ["node", str(NODE_WORKER)], self._gate.url
        return [*program, str(self._settings.path), url, member.name, *member.arguments]

    def _is_foreign(self, member: Member) -> bool:
        """Tell whether it is a worker that comes by HTTP."""
        return self._gate is not None and member.role == WORKER and member.name != CLERK

    def pids(self) -> list[int]:
        """Return the processes that run."""
        with self._mutex:
            return [member.pid for member in self._members if member.is_running]

    # Hurting.

    def now(self) -> float:
        return self._ledger.now()

    def note(self, entry: Entry) -> None:
        """Note what was done to somebody who is no member."""
        self._ledger.note(entry)

    def choose(self, role: str, rng: Random) -> Member | None:
        """Return somebody who runs and is not stopped; None if there is nobody."""
        with self._mutex:
            fit = [m for m in self._members if m.role == role and m.is_running and not m.stopped_at]
            # Where workers come by HTTP, it is those that are to be hurt.
            fit = [m for m in fit if self._is_foreign(m)] or fit
            return rng.choice(fit) if fit else None

    def who(self, pid: int) -> Member | None:
        """Return the member that this process is."""
        with self._mutex:
            fit = (m for m in self._members if m.is_running and m.pid == pid and not m.stopped_at)
            return next(fit, None)

    def kill(self, member: Member) -> None:
        """End a process as a failing machine would; return when it is gone."""
        assert member.process is not None
        with self._mutex:
            self._ledger.note(Killed(self._ledger.now(), member.pid, member.role))
            member.process.kill()
            member.process.wait()
            _close(member.process)
            if member.stopped_at is not None:
                self._note_stop(member)

    def stop(self, member: Member) -> None:
        """Stop a process in whatever it does; return when it stands still."""
        with self._mutex:
            if not member.is_running:
                return
            member.stopped_at = self._ledger.now()
            os.kill(member.pid, signal.SIGSTOP)
            os.waitpid(member.pid, os.WUNTRACED)

    def go_on(self, member: Member) -> None:
        """Let a stopped process go on."""
        with self._mutex:
            if member.stopped_at is not None and member.is_running:
                os.kill(member.pid, signal.SIGCONT)
            if member.stopped_at is not None:
                self._note_stop(member)

    def _note_stop(self, member: Member) -> None:
        assert member.stopped_at is not None
        until = self._ledger.now()
        self._ledger.note(Stopped(member.stopped_at, member.pid, member.role, until))
        member.stopped_at = None

    def terminate(self, member: Member) -> None:
        """Ask a process to end in its own time."""
        if member.is_running:
            os.kill(member.pid, signal.SIGTERM)

    # Ending.

    def dismiss(self, role: str) -> None:
        """End all processes of a role gracefully; kill those that do not end."""
        with self._mutex:
            leaving = [member for member in self._members if member.role == role]
            for member in leaving:
                member.is_kept = False
                self.go_on(member)
                self.terminate(member)
        for member in leaving:
            assert member.process is not None
            try:
                member.process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.kill(member)
            _close(member.process)

    def close(self) -> None:
        """Kill all processes that are left."""
        with self._mutex:
            for member in self._members:
                member.is_kept = False
                if member.is_running:
                    self.kill(member)
        self._log.close()


def _close(process: subprocess.Popen[bytes]) -> None:
    """Let go of the pipe by which a child learns that we are gone."""
    if process.stdin is not None:
        process.stdin.close()
