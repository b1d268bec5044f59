"""Real processes for the crash tests, and the ledger that they write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from tests.worker.support import LONG, eventually_sync

from fencepost import App, JobHandle, Retry, Timeouts
from fencepost.platform.locks import try_lock

PROGRAM = Path(__file__).parent / "programs" / "crew.py"
LEASE_TTL = 1.5
SESSIONS = """
select distinct state from pg_stat_activity
where application_name = %s and datname = current_database()
"""
TASKS = ("stay", "stay_on_first", "work", "isolated", "kill")


@dataclass
class Crew:
    """Processes that share one database and one ledger."""

    folder: Path
    url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = self.folder / "ledger.jsonl"
        self.gate = self.folder / "gate"
        self.app = App(
            self.url,
            retry=Retry(max_attempts=3, initial_delay=0.1),
            timeouts=Timeouts(lease_ttl=LEASE_TTL),
        )
        self.app.migrate()
        self.tasks = {name: self.app.task(name=name)(_submitted_only) for name in TASKS}

    def submit(self, name: str, **arguments: Any) -> JobHandle[Any]:
        """Submit a job for a handler of the program."""
        return self.tasks[name].submit(**arguments)

    def start(self, role: str = "worker") -> subprocess.Popen[bytes]:
        """Start a process; it is killed with the test, if not before."""
        url = self.url
        if self._is_postgres:
            url += f"?application_name={_name(len(self.processes))}"
        process = subprocess.Popen([sys.executable, str(PROGRAM), role, url, str(self.ledger)])
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
        """Stop a process with SIGSTOP, but not while it holds a lock that others need."""
        holds_lock = self._is_in_transaction if self._is_postgres else self._holds_file
        while True:
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            if not holds_lock(process):
                return
            process.send_signal(signal.SIGCONT)

    @property
    def _is_postgres(self) -> bool:
        return self.url.startswith("postgresql:")

    def _holds_file(self, process: subprocess.Popen[bytes]) -> bool:
        path = self.url.removeprefix("sqlite:///")
        with open(f"{path}-lock", "r+b") as lock:
            return not try_lock(lock.fileno())

    def _is_in_transaction(self, process: subprocess.Popen[bytes]) -> bool:
        name = _name(self.processes.index(process))
        with psycopg.connect(self.url, autocommit=True) as admin:

            def states() -> set[str]:
                return {state for (state,) in admin.execute(SESSIONS, (name,))}

            # What the server had been asked before is done first.
            eventually_sync(lambda: "active" not in states(), "a server that is done")
            return states() != {"idle"}

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


def _name(number: int) -> str:
    """Return what a process is called in the server's list of sessions."""
    return f"crew-{number}"


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
