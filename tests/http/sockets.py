"""A real server on a real socket, and clients that behave badly."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from tests.cli.support import wait_until

from fencepost import App
from fencepost.http.server.connection import ConnectionLimits
from fencepost.http.server.server import Server, ServerOptions, listen, loop_factory

SECONDS = 20.0
SWEPT = ConnectionLimits(sweep_interval=0.05)
"""The bounds that a server has, looked at often."""
HASTY = replace(SWEPT, head_timeout=1.0, linger=0.3, write_timeout=1.0, farewell=0.2)
"""Bounds that are met within a test, for those that wait for it."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of the problem that this must be."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["code"])


class Client:
    """One connection, byte by byte."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, SECONDS)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, method: str, path: str, body: Any = None, *headers: str) -> Answer:
        """Ask, and return the answer."""
        self.send(request(method, path, body, *headers))
        return self.answer()

    def answer(self) -> Answer:
        """Return the next answer, or raise ConnectionError if it is cut off."""
        status = int(self._line().split()[1])
        headers: dict[str, str] = {}
        while line := self._line().strip():
            name, _, value = line.partition(b": ")
            headers[name.decode().lower()] = value.decode()
        length = int(headers.get("content-length", 0))
        body = self._file.read(length)
        if len(body) < length:
            raise ConnectionError("the body broke off")
        return Answer(status, headers, body)

    def _line(self) -> bytes:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the head broke off")
        return line

    def is_closed(self) -> bool:
        """Wait for the other side to close, which it must; a reset counts."""
        try:
            return self._file.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request(method: str, path: str, body: Any = None, *headers: str) -> bytes:
    """Return a request as it goes over the wire."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *headers]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode() + data


@dataclass
class Serving:
    """A server that runs in a thread of this process."""

    server: Server
    address: tuple[str, int]
    thread: threading.Thread

    def connect(self) -> Client:
        return Client(self.address)

    def is_quiet(self) -> bool:
        return not self.server.connections

    def until_quiet(self) -> None:
        """Wait until no connection is left."""
        wait_until(self.is_quiet, "no connection is left")

    def stop(self) -> None:
        """Have it stop, and wait for it."""
        self.server.stop()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


def _run(server: Server) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(server.run_async())


@contextmanager
def serving(app: App, limits: ConnectionLimits = SWEPT, **options: Any) -> Iterator[Serving]:
    """Serve *app* on a free port of this machine."""
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()[:2]
    chosen = ServerOptions(**{"is_local": True, "grace": 5.0, **options})
    server = Server(app, listening, chosen, limits=limits)
    thread = threading.Thread(target=_run, args=(server,))
    thread.start()
    made = Serving(server, address, thread)
    try:
        yield made
    finally:
        server.stop()
        thread.join(3.0)
        server.stop()
        thread.join(SECONDS)
    assert not thread.is_alive()
