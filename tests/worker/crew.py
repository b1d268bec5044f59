"""Real processes for the crash tests, and the ledger that they write."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.worker.support import LONG, eventually_sync

from fencepost import App, JobHandle, Retry, Timeouts

PROGRAM = Path(__file__).parent / "programs" / "crew.py"
LEASE_TTL = 1.5
TASKS = ("stay", "stay_on_first", "work", "isolated")


@dataclass
class Crew:
    """Processes that share one database and one ledger."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = self.folder / "jobs.db"
        self.ledger = self.folder / "ledger.jsonl"
        self.gate = self.folder / "gate"
        self.app = App(
            f"sqlite:///{self.database}",
            retry=Retry(max_attempts=3, initial_delay=0.1),
            timeouts=Timeouts(lease_ttl=LEASE_TTL),
        )
        self.tasks = {name: self.app.task(name=name)(_submitted_only) for name in TASKS}

    def submit(self, name: str, **arguments: Any) -> JobHandle[Any]:
        """Submit a job for a handler of the program."""
        return self.tasks[name].submit(**arguments)

    def start(self, role: str = "worker") -> subprocess.Popen[bytes]:
        """Start a process; it is killed with the test, if not before."""
        arguments = [sys.executable, str(PROGRAM), role, str(self.database), str(self.ledger)]
        process = subprocess.Popen(arguments)
        self.processes.append(process)
        return process

    def start_worker(self, role: str = "worker") -> subprocess.Popen[bytes]:
        """Start a worker and wait until it works."""
        worker = self.start(role)
        eventually_sync(lambda: worker.pid in {w.pid for w in self.app.workers.list()}, "a worker")
        return worker

    def events(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Return the ledger's entries of this kind."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        entries = [json.loads(line) for line in lines]
        wanted = {"event": event, **fields}
        return [entry for entry in entries if wanted.items() <= entry.items()]

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        found = eventually_sync(lambda: self.events(event, **fields), f"{event} {fields}")
        return found[0]

    def freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process with SIGSTOP, but not while it holds the lock that all writers need."""
        while True:
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            with open(f"{self.database}-lock", "rb") as lock, suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            process.send_signal(signal.SIGCONT)

    def stop(self, process: subprocess.Popen[bytes]) -> dict[str, float]:
        """Ask a worker to stop, and return its counters."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
        counters: dict[str, float] = self.wait_for("stopped", pid=process.pid)["counters"]
        return counters

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(LONG)
        self.app.close()


def is_running(pid: int) -> bool:
    """Tell whether a process is there; a zombie, which waits to be reaped, is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _submitted_only(**arguments: Any) -> int:
    raise AssertionError("it runs in the program only")
