"""A server as a child process of the tests, which ends with them and leaves nothing behind."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.servers.account import Account

WATCHDOG = Path(__file__).with_name("watchdog.py")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
PORTS_TRIED = 100

# Below the ports that systems give to outgoing connections: while a server is down between two
# starts, no client of another test can be sitting on its port.
PORTS = range(15_000, 32_000)


class ServerFailedError(RuntimeError):
    """A server did not start, or did not stop. The message ends with what it logged."""


def free_port() -> int:
    """Return a loopback port nobody listens on."""
    chance = random.SystemRandom()  # the shared generator is seeded, alike in every process
    for _ in range(PORTS_TRIED):
        port = chance.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailedError(f"no free port after {PORTS_TRIED} attempts")


class Startable(ABC):
    """A server that runs within a block: it is started, and closed whatever happens."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Child:
    """One server program in a temporary folder of its own.

    A watchdog waits beside it, so that it ends when this process does, also by SIGKILL.
    """

    def __init__(self, name: str, *, pid_file: str) -> None:
        self.account = Account.unprivileged()
        self.folder = self.account.make_folder(f"fencepost-{name}-")
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self._alive = -1  # readable at its end only, which comes when no process holds the other
        pids = str(self.folder / pid_file)
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHDOG), str(self.folder), pids],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    def start(self, command: Sequence[str | Path], is_ready: Callable[[], bool]) -> None:
        """Start *command* and return when *is_ready* says so.

        Raises ServerFailedError if it ends before that, or takes too long.
        """
        assert self.process is None, "the server is running already"
        self._alive, held = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for pytest, which then stops the server in its own time.
                start_new_session=True,
                pass_fds=[held],
                **self.account.popen,
            )
        os.close(held)
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise ServerFailedError(f"{command[0]} did not start:\n{self.last_words()}")
            time.sleep(0.01)

    def end(self, how: signal.Signals) -> None:
        """Send the signal, and wait until the server and all its children are gone."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerFailedError(
                f"the server ignored {how.name}:\n{self.last_words()}"
            ) from None
        finally:
            self.process = None
            # The children of a killed server notice its death by themselves, a little later. They
            # inherited the pipe, so its end is the moment when the last of them is gone.
            gone, _, _ = select.select([self._alive], [], [], STOP_SECONDS)
            os.close(self._alive)
        if not gone:
            raise ServerFailedError(f"children outlived the server:\n{self.last_words()}")

    def close(self) -> None:
        """Remove the folder. The server must have ended."""
        assert self.process is None, "end the server first"
        shutil.rmtree(self.folder, ignore_errors=True)
        self._watchdog.communicate()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2_000:] if self.log.exists() else ""
