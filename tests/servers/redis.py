"""Real Redis servers for tests, each a child of the test process.

The program is the machine's own, else that of a wheel which development installs: Redis, else
Valkey. FENCEPOST_TEST_REDIS_PROGRAM names another one. FENCEPOST_TEST_REDIS names a server to be
used instead, whose keys under `{fencepost-test-…}` are written and deleted.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

import pytest
import redis
from tests.servers.child import Child, free_port
from tests.servers.places import NoServerError

from fencepost.cli.demo.processes import programs

ADVICE = (
    "install your system's Redis package (Debian: redis-server), or set FENCEPOST_TEST_REDIS to "
    "the URL of a server that may be written to (`make setup` installs one on x86-64 Linux only)"
)
USUAL = {"save": "", "appendonly": "yes", "appendfsync": "no"}
"""What the default durability needs; a power cut is no loss here."""
FORGETFUL = {"save": "", "appendonly": "no"}


def find_program() -> Path:
    """Return the server's program, or raise NoServerError."""
    given = os.environ.get("FENCEPOST_TEST_REDIS_PROGRAM")
    if given:
        return Path(given).resolve()
    for program in programs():
        return program
    raise NoServerError(f"no Redis: {ADVICE}")


def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when something has become true; fail if it does not."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not true after {seconds:g} s"
        time.sleep(0.01)


class RedisServer:
    """A server run as a child of this process, on a free loopback port."""

    def __init__(self, settings: Mapping[str, str] = USUAL, *, program: Path | None = None) -> None:
        self._program = program or find_program()
        self._child = Child("redis", pid_file="pid")
        self.settings = dict(settings)
        """Changed ones are used at the next start."""
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._child.pid

    def start(self) -> None:
        """Start it, and return when it answers."""
        # A virtual environment may be one that only its owner can read.
        program = self._child.folder / "redis-server"
        if not program.exists():
            shutil.copy(self._program, program)
            program.chmod(0o755)
        self._child.start(self.command(program), self._is_ready)

    def command(self, program: Path) -> list[str | Path]:
        """Return what starts it."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "pidfile": str(self.folder / "pid"),
            "daemonize": "no",
            **self.settings,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [program, *words]

    def own(self, path: Path) -> None:
        """Let the server read and write a file in its folder."""
        self._child.account.own(path)

    @property
    def is_running(self) -> bool:
        return self._child.process is not None

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) != 0:
                return False
            if "tls-port" in self.settings:  # it listens when it is ready
                return True
            probe.settimeout(5.0)
            probe.sendall(b"PING\r\n")
            answer = probe.recv(100)
        ready = [b"+PONG", b"-NOAUTH", b"-NOPERM"]
        if "key-load-delay" in self.settings:  # so that a test sees it loading
            ready.append(b"-LOADING")
        return answer.startswith(tuple(ready))

    @property
    def folder(self) -> Path:
        return self._child.folder

    def client(self, **options: Any) -> Any:
        """Return a client, for what a test does to the server; the driver's answers have no types.

        It has no time limit: a test may have frozen the server.
        """
        return redis.Redis(port=self.port, protocol=2, **options)

    def do(self, *words: Any, **options: Any) -> Any:
        """Run one command, and return its answer."""
        with self.client(**options) as client:
            client.response_callbacks.clear()  # as the server answered it
            return client.execute_command(*words)

    def said(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""
        with self.client() as client:
            found: dict[str, Any] = client.info(section)
            return found

    def freeze(self) -> None:
        """Stop it in the middle of what it does."""
        os.kill(self._child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._child.pid, signal.SIGCONT)

    def follow(self, master: RedisServer) -> None:
        """Make it a replica, and return when it has all data and takes part."""
        self.do("REPLICAOF", "127.0.0.1", str(master.port))
        eventually(lambda: self.said("replication")["master_link_status"] == "up")
        eventually(
            lambda: any(
                isinstance(each, dict) and each.get("state") == "online"
                for each in master.said("replication").values()
            )
        )

    def crash(self) -> None:
        self._child.end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def discard(self) -> None:
        """End it however it is, and remove its folder."""
        with suppress(Exception):
            self.crash()
        self._child.close()


S = TypeVar("S")


def or_skip(make: Callable[..., S], *given: Any) -> S:
    """Return what *make* makes, or skip the test on a machine that has no such server."""
    try:
        return make(*given)
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Return the URL of a server that all tests of this process share."""
    given = os.environ.get("FENCEPOST_TEST_REDIS")
    if given:
        yield given
        return
    with or_skip(RedisServer) as server:
        yield server.url


@pytest.fixture
def redis_prefix(redis_url: str) -> Iterator[str]:
    """Return the prefix of one test's keys, which are deleted after it."""
    name = f"{{fencepost-test-{uuid4().hex}}}:"
    yield name
    with redis.Redis.from_url(redis_url) as client:
        keys = list(client.scan_iter(match=f"{name}*", count=1_000))
        for start in range(0, len(keys), 1_000):
            client.unlink(*keys[start : start + 1_000])
