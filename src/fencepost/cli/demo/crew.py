"""The worker processes of ``fencepost demo``: real ones, to be killed and frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fencepost.clock import Clock
from fencepost.errors import StoreUnavailableError
from fencepost.store.open import open_store
from fencepost.worker.process.lifeline import Lifeline

STOP_PATIENCE = 3.0
FREEZES_MAX = 20
LOG_TAIL = 15


@dataclass
class WorkerProcess:
    """One worker process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    is_frozen: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def trouble(self) -> str:
        """What keeps the process from working, if anything does."""
        if self.process.poll() is not None:
            return "dead"
        return "frozen" if self.is_frozen else ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker has logged."""
        for line in self.log.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):
                entry = msgspec.json.decode(line)
                if isinstance(entry, dict):
                    yield entry


class Crew:
    """Starts workers, and ends every one of them with us."""

    def __init__(self, folder: Path, url: str, lease_ttl: float, clock: Clock) -> None:
        self._folder = folder
        self._url = url
        self._lease_ttl = lease_ttl
        self._clock = clock
        self._lifeline = Lifeline()
        self.hands: list[WorkerProcess] = []

    def hire(self) -> WorkerProcess:
        """Start one more worker process."""
        name = f"worker {len(self.hands) + 1}"
        log = self._folder / f"{name.replace(' ', '-')}.log"
        command = [
            *(sys.executable, "-m", "fencepost", "--url", self._url, "--log-json", "worker"),
            *("fencepost.cli.demo.tasks:app", "--concurrency", "4", "--grace", "1s"),
            *("--lease-ttl", f"{self._lease_ttl:g}s", "--processes", "1"),
        ]
        with log.open("wb") as file:
            process = self._lifeline.spawn(command, stdout=file, stderr=file)
        self.hands.append(WorkerProcess(name, process, log))
        return self.hands[-1]

    def keep(self, count: int) -> None:
        """Start workers until *count* are running."""
        alive = sum(hand.process.poll() is None for hand in self.hands)
        for _ in range(count - alive):
            self.hire()

    def holder_of(self, worker_id: str) -> WorkerProcess | None:
        """Return the process behind a worker's id, which holds its process id."""
        for hand in self.hands:
            if f"-{hand.pid}-" in worker_id:
                return hand
        return None

    def name_of(self, worker_id: str) -> str:
        hand = self.holder_of(worker_id)
        return worker_id if hand is None else hand.name

    def kill(self, hand: WorkerProcess) -> None:
        """``kill -9``: the process gets no chance to say or save anything."""
        hand.process.kill()
        hand.process.wait()

    def freeze(self, hand: WorkerProcess) -> bool:
        """Stop a process with SIGSTOP, but not in the middle of a write: that would hold the lock.

        Return False if no such moment was found.
        """
        for _ in range(FREEZES_MAX):
            os.kill(hand.pid, signal.SIGSTOP)
            hand.is_frozen = True
            if self._is_writable():
                return True
            self.thaw(hand)
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

    def thaw(self, hand: WorkerProcess) -> None:
        os.kill(hand.pid, signal.SIGCONT)
        hand.is_frozen = False

    def refused_writes(self) -> list[dict[str, Any]]:
        """Return the stale writes that the store refused, as the workers logged them."""
        return [
            event
            for hand in self.hands
            for event in hand.events()
            if str(event.get("event", "")).startswith("stale.")
        ]

    def log_tails(self) -> str:
        """Return the ends of the logs, for when something has gone wrong."""
        parts = []
        for hand in self.hands:
            lines = hand.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
            parts.append("\n".join([f"--- {hand.name} (pid {hand.pid})", *lines]))
        return "\n".join(parts)

    def dismiss(self) -> None:
        """End every process, gently if it can be."""
        alive = [hand for hand in self.hands if hand.process.poll() is None]
        for hand in alive:
            with suppress(ProcessLookupError):
                self.thaw(hand)
                hand.process.terminate()
        deadline = self._clock.monotonic() + STOP_PATIENCE
        for hand in alive:
            try:
                hand.process.wait(max(deadline - self._clock.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                self.kill(hand)
        self._lifeline.close()
